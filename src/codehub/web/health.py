"""Whether this process can do its work: each dependency with its state, and what to do when one is down.

All checks run at once and each has a time limit, so the answer comes within seconds even when nothing answers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from codehub.dependencies import Check, Checks, Degraded
from codehub.errors import CodeHubError

log = structlog.get_logger(__name__)

CHECK_SECONDS = 2.0
FRESH_SECONDS = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DependencyState:
    """One dependency; `detail` says what is wrong and what to do. One that is up may have a warning there."""

    up: bool
    detail: str = ""
    degraded: bool = False  # it is up, and something that it needs for a part of its work is out


async def look_at(checks: Checks) -> dict[str, DependencyState]:
    """The state of every dependency, now."""
    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(_state_of(check)) for name, check in checks.items()}
    return {name: task.result() for name, task in tasks.items()}


def once(check: Check) -> Check:
    """Whether it has ever passed: then it is not looked at again, and an outage later is not this process's fault."""
    passed = False

    async def look() -> str | None:
        nonlocal passed
        warning = None if passed else await check()
        passed = True
        return warning

    return look


class Kept(Generic[T]):
    """One look for everybody who asks within some seconds: whoever asks often costs what is looked at nothing more."""

    def __init__(self, look: Callable[[], Awaitable[T]], seconds: float = FRESH_SECONDS) -> None:
        self._look, self._seconds = look, seconds
        self._lock = asyncio.Lock()
        self._found: tuple[float, T] | None = None

    async def latest(self) -> T:
        """What was found, at most so long ago."""
        async with self._lock:
            if self._found is None or time.monotonic() - self._found[0] > self._seconds:
                found = await self._look()
                self._found = (time.monotonic(), found)
            return self._found[1]


Looks = Kept[dict[str, DependencyState]]


async def _state_of(check: Check) -> DependencyState:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            warning = await check()
    except TimeoutError:
        return DependencyState(up=False, detail=f"No answer within {CHECK_SECONDS:g} s.")
    except CodeHubError as error:
        return DependencyState(up=False, detail=str(error))
    except Exception:  # a check that breaks says "down", never "I do not know"
        log.exception("a health check failed")
        return DependencyState(up=False, detail="It could not be checked; the log has the details.")
    return DependencyState(up=True, detail=warning or "", degraded=isinstance(warning, Degraded))
