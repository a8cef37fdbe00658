"""Whether this process can do its work: each dependency with its state, and what to do when one is down.

All checks run at once and each has a time limit, so the answer comes within seconds even when nothing answers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from codehub.errors import CodeHubError

log = structlog.get_logger(__name__)

CHECK_SECONDS = 2.0
FRESH_SECONDS = 2.0

# Returns when it works, with a warning or None; raises what is wrong.
Check = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class DependencyState:
    """One dependency; `detail` says what is wrong and what to do. One that is up may have a warning there."""

    up: bool
    detail: str = ""


async def look_at(checks: Mapping[str, Check]) -> dict[str, DependencyState]:
    """The state of every dependency, now."""
    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(_state_of(check)) for name, check in checks.items()}
    return {name: task.result() for name, task in tasks.items()}


class Looks:
    """One look for everybody who asks within two seconds: whoever asks often costs the dependencies nothing more."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._lock = asyncio.Lock()
        self._states: dict[str, DependencyState] = {}
        self._at = float("-inf")

    async def latest(self) -> dict[str, DependencyState]:
        """The state of every dependency, at most FRESH_SECONDS ago."""
        async with self._lock:
            if time.monotonic() - self._at > FRESH_SECONDS:
                self._states = await look_at(self._checks)
                self._at = time.monotonic()
            return self._states


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
    return DependencyState(up=True, detail=warning or "")
