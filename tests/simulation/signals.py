"""Redis in memory: visits that proxies saw, and the timers of orphans. All of it may be lost at any moment."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from codehub.errors import Unavailable
from codehub.model.clocks import ClockWatch
from codehub.model.workspace import WorkspaceId
from codehub.signals.activity import Visit


@dataclass
class MemoryRedis:
    """The server."""

    is_out: bool = False
    skew: float = 0.0  # of its clock, in seconds; may jump at any moment
    visited: dict[WorkspaceId, float] = field(default_factory=dict)  # when, by its clock
    since: dict[str, datetime] = field(default_factory=dict)
    mark: object = None

    def answer(self) -> None:
        if self.is_out:
            raise Unavailable("Redis does not answer.", "Check that it runs.")

    def time(self) -> float:
        return asyncio.get_running_loop().time() + self.skew

    def flush(self) -> None:
        """Everything in it is gone."""
        self.visited.clear()
        self.since.clear()
        self.mark = None


@dataclass
class MemoryActivity:
    """Implements Activity, for one process; `report` is the proxies' side."""

    redis: MemoryRedis
    _mark: object = field(default_factory=object)
    _clock: ClockWatch = field(default_factory=lambda: ClockWatch(2.0))
    _has_jumped: bool = True

    async def report(self, ages: Mapping[WorkspaceId, float]) -> None:
        self.redis.answer()
        for workspace_id, age in ages.items():
            at = self.redis.time() - age
            self.redis.visited[workspace_id] = max(at, self.redis.visited.get(workspace_id, at))

    async def visits(self, limit: int) -> Mapping[WorkspaceId, Visit]:
        self.redis.answer()
        now, ours = self.redis.time(), asyncio.get_running_loop().time()
        self._has_jumped = bool(self.redis.visited) and (self._has_jumped or self._clock.jump(now, ours) != 0)
        self._clock.note(now, ours)
        oldest = sorted(self.redis.visited.items(), key=lambda visit: (visit[1], str(visit[0])))
        return {who: Visit(0.0 if self._has_jumped else max(0.0, now - at), at) for who, at in oldest[:limit]}

    async def forget(self, visits: Mapping[WorkspaceId, Visit]) -> None:
        self.redis.answer()
        for workspace_id, visit in visits.items():
            if workspace_id in self.redis.visited and self.redis.visited[workspace_id] <= visit.score:
                del self.redis.visited[workspace_id]

    async def is_continuous(self) -> bool:
        self.redis.answer()
        was_ours = self.redis.mark is self._mark
        self.redis.mark = self._mark = object()
        return was_ours


@dataclass(frozen=True)
class MemoryTimers:
    """Implements OrphanTimers."""

    redis: MemoryRedis

    async def all(self) -> Mapping[str, datetime]:
        self.redis.answer()
        return dict(self.redis.since)

    async def start(self, keys: Collection[str], at: datetime) -> None:
        self.redis.answer()
        for key in keys:
            self.redis.since.setdefault(key, at)

    async def clear(self, keys: Collection[str]) -> None:
        self.redis.answer()
        for key in keys:
            self.redis.since.pop(key, None)
