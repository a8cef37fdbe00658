"""Measures what running workspaces use, and leaves it for whoever shows it (signals/usage.py).

Processor use is the difference between two looks, so it is known from the second one on. What cannot be measured is
left out: nothing else depends on it, and an engine that is out is the controller's to tell.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from codehub.coordinator.ports import UsageKeeper
from codehub.drivers.base import Backend, InstanceUsage
from codehub.errors import DriverError
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.signals.usage import Measurement

log = structlog.get_logger(__name__)

PERIOD_SECONDS = 15.0
_POINT_SECONDS = 300.0
_LOOK_SECONDS = 10.0


@dataclass(slots=True)
class _Course:
    """One workspace since the last point of its day."""

    cpu_seconds: float | None = None  # at the last look
    looked_at: float = 0.0  # by the monotonic clock
    cpus: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


class UsageSampler:
    """One look each time it is asked to."""

    def __init__(
        self,
        backends: Mapping[InstanceBackend, Backend],
        keeper: UsageKeeper,
        now: Callable[[], Awaitable[datetime]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backends = backends
        self._keeper = keeper
        self._now = now  # the database's clock
        self._clock = clock
        self._courses: dict[WorkspaceId, _Course] = {}
        self._next_point: float | None = None

    async def sample(self) -> None:
        looks = await asyncio.gather(*(self._look(name, one) for name, one in self._backends.items()))
        used = {workspace_id: usage for look in looks for workspace_id, usage in look.items()}
        clock = self._clock()
        self._courses = {each: self._courses.get(each, _Course()) for each in used}
        if not used:
            return
        now = await self._now()
        measured = {each: self._measured(each, usage, clock, now) for each, usage in used.items()}
        await self._keeper.leave(measured)
        if self._next_point is None:
            self._next_point = clock + _POINT_SECONDS
        elif clock >= self._next_point:
            self._next_point = clock + _POINT_SECONDS
            await self._keeper.add({each: self._point(each, now) for each in used})

    async def _look(self, name: InstanceBackend, backend: Backend) -> Mapping[WorkspaceId, InstanceUsage]:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await backend.instances.usage()
        except (DriverError, TimeoutError) as error:
            log.debug("usage not measured", backend=name, cause=str(error))
            return {}

    def _measured(self, workspace_id: WorkspaceId, usage: InstanceUsage, clock: float, now: datetime) -> Measurement:
        course = self._courses[workspace_id]
        cpus = usage.cpus if usage.cpus is not None else _rate(course, usage.cpu_seconds, clock)
        course.cpu_seconds, course.looked_at = usage.cpu_seconds, clock
        if cpus is not None:
            course.cpus.append(cpus)
        if usage.memory_bytes is not None:
            course.memory.append(usage.memory_bytes)
        return Measurement(now, cpus, usage.memory_bytes, usage.ports)

    def _point(self, workspace_id: WorkspaceId, now: datetime) -> Measurement:
        """The mean of its processor use, and the most memory: what people look for is a peak."""
        course = self._courses[workspace_id]
        cpus = round(sum(course.cpus) / len(course.cpus), 3) if course.cpus else None
        memory = max(course.memory, default=None)
        course.cpus, course.memory = [], []
        return Measurement(now, cpus, memory)


def _rate(course: _Course, cpu_seconds: float | None, clock: float) -> float | None:
    """None at the first look, and of one that was started again meanwhile."""
    if cpu_seconds is None or course.cpu_seconds is None or clock <= course.looked_at:
        return None
    used = cpu_seconds - course.cpu_seconds
    return round(used / (clock - course.looked_at), 3) if used >= 0 else None
