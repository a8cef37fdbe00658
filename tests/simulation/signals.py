"""Redis in memory: visits that proxies saw, and the timers of orphans. All of it may be lost at any moment."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId


@dataclass
class MemoryRedis:
    """The server."""

    is_out: bool = False
    visited: dict[WorkspaceId, datetime] = field(default_factory=dict)
    since: dict[str, datetime] = field(default_factory=dict)
    mark: object = None

    def answer(self) -> None:
        if self.is_out:
            raise Unavailable("Redis does not answer.", "Check that it runs.")

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

    async def report(self, visits: Mapping[WorkspaceId, datetime]) -> None:
        self.redis.answer()
        for workspace_id, at in visits.items():
            self.redis.visited[workspace_id] = max(at, self.redis.visited.get(workspace_id, at))

    async def visits(self, limit: int) -> Mapping[WorkspaceId, datetime]:
        self.redis.answer()
        oldest = sorted(self.redis.visited.items(), key=lambda visit: (visit[1], str(visit[0])))
        return dict(oldest[:limit])

    async def forget(self, visits: Mapping[WorkspaceId, datetime]) -> None:
        self.redis.answer()
        for workspace_id, at in visits.items():
            if workspace_id in self.redis.visited and self.redis.visited[workspace_id] <= at:
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
