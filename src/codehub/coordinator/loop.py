"""A loop: one idempotent piece of work, a period, a wake-up, and a status that anyone may read.

A run that fails is skipped, counted and logged once per change of cause, not once per run; the next one starts over,
and nothing else notices. Only the loss of leadership gets out, because then nobody here may go on. Waking carries no
data: it hurries the next run, and losing it costs latency alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from codehub.errors import CodeHubError, StaleLeader
from codehub.tracing import span

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class LoopStatus:
    """What a loop has done so far; times are the event loop's, in seconds."""

    runs: int = 0
    failures: int = 0
    failing_since: float | None = None
    last_error: str = ""
    last_started: float | None = None
    last_seconds: float = 0.0

    @property
    def is_failing(self) -> bool:
        return self.failing_since is not None


class Loop:
    """Runs `work` every `period()` seconds, and at once when woken or when `work` returned True (there is more)."""

    def __init__(self, name: str, work: Callable[[], Awaitable[bool | None]], period: Callable[[], float]) -> None:
        self.name = name
        self.status = LoopStatus()
        self._work = work
        self._period = period
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Run soon. Any number of wake-ups before the next run are one."""
        self._woken.set()

    async def run(self) -> None:
        """For ever; ends only by being cancelled or by StaleLeader."""
        while True:
            self._woken.clear()
            more = await self._once()
            if more:
                await asyncio.sleep(0)  # the other loops get their turn
            else:
                await self._pause()

    async def _once(self) -> bool:
        now = asyncio.get_running_loop().time
        started = self.status.last_started = now()
        self.status.runs += 1
        try:
            with span(f"loop {self.name}"):
                more = bool(await self._work())
        except StaleLeader:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other loops and the next run go on
            self._failed(error, started)
            more = False
        else:
            self._succeeded()
        self.status.last_seconds = now() - started
        return more

    def _failed(self, error: Exception, started: float) -> None:
        status = self.status
        status.failures += 1
        expected = isinstance(error, CodeHubError)
        cause = str(error) if expected else f"{type(error).__name__}: {error}"
        if cause != status.last_error or not status.is_failing:
            log.error("a loop failed; it goes on", loop=self.name, cause=cause, exc_info=None if expected else error)
        status.last_error = cause
        status.failing_since = started if status.failing_since is None else status.failing_since

    def _succeeded(self) -> None:
        status = self.status
        if status.failing_since is not None:
            log.info("a loop works again", loop=self.name, failures=status.failures)
        status.failing_since, status.last_error = None, ""

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._period()):
                await self._woken.wait()
        except TimeoutError:
            pass
