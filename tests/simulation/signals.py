"""Redis in memory: visits that proxies saw, and the timers of orphans. All of it may be lost at any moment."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId


@dataclass
class MemoryRedis:
    """Implements Activity; `timers` implements OrphanTimers."""

    is_out: bool = False
    visited: dict[WorkspaceId, datetime] = field(default_factory=dict)
    since: dict[str, datetime] = field(default_factory=dict)
    on_answer: Callable[[], None] = lambda: None
    _marked: bool = False  # the mark that says "nothing was lost since"

    def answer(self) -> None:
        if self.is_out:
            raise Unavailable("Redis did not answer in time.", "Try again in a moment.")

    def flush(self) -> None:
        """Everything in it is gone."""
        self.visited.clear()
        self.since.clear()
        self._marked = False

    def visit(self, workspace_id: WorkspaceId, at: datetime) -> None:
        """What a proxy sends: ZADD GT."""
        self.answer()
        self.visited[workspace_id] = max(at, self.visited.get(workspace_id, at))

    async def visits(self, limit: int) -> Mapping[WorkspaceId, datetime]:
        self.answer()
        oldest = sorted(self.visited.items(), key=lambda visit: (visit[1], str(visit[0])))
        return dict(oldest[:limit])

    async def forget(self, visits: Mapping[WorkspaceId, datetime]) -> None:
        self.answer()
        for workspace_id, at in visits.items():
            if self.visited.get(workspace_id) == at:
                del self.visited[workspace_id]

    async def is_continuous(self) -> bool:
        self.answer()
        was, self._marked = self._marked, True
        return was

    @property
    def timers(self) -> "MemoryTimers":
        return MemoryTimers(self)


@dataclass(frozen=True)
class MemoryTimers:
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
