"""A collector and everything around it: real rows and timers, and a store in memory."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from codehub.coordinator.collect import Collector
from codehub.coordinator.records import DatabaseRecords
from codehub.db import archive_operations
from codehub.db.pool import Connection
from codehub.drivers.memory import MemoryWorld
from codehub.errors import Unavailable
from codehub.model.gc import GcRules, KnownWorkspace
from codehub.model.names import archive_key
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId
from codehub.signals.connect import Redis
from codehub.signals.timers import RedisTimers
from tests.db.support import add_workspace

RULES = GcRules()
LONG_AGO = datetime.now(UTC) - timedelta(days=30)


async def nobody_objects() -> str | None:
    """The store is this installation's."""
    return None


@dataclass
class Leader:
    """Implements ports.Leadership; stays sure of itself for so many questions."""

    epoch: int = 1
    sure: int | None = None

    def is_fresh(self) -> bool:
        if self.sure is None:
            return True
        self.sure -= 1
        return self.sure >= 0


@dataclass
class Watched(DatabaseRecords):
    """Something happens right after GC read, or while it reads."""

    records: DatabaseRecords
    after_known: Callable[[], Awaitable[object]] | None = None
    after_remembered: Callable[[], Awaitable[object]] | None = None
    away: set[str] = field(default_factory=set)
    asked: list[tuple[Collection[WorkspaceId], Collection[str]]] = field(default_factory=list)

    def _answer(self, what: str) -> None:
        if what in self.away:
            raise Unavailable("The database did not answer in time.")

    async def now(self) -> datetime:
        self._answer("now")
        return await self.records.now()

    async def known(self, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
        self._answer("known")
        page = await self.records.known(after, limit)
        if not page and self.after_known:
            await self.after_known()
        return page

    async def known_of(self, ids: Collection[WorkspaceId], keys: Collection[str]) -> Sequence[KnownWorkspace]:
        self._answer("known_of")
        self.asked.append((ids, keys))
        return await self.records.known_of(ids, keys)

    async def remembers_since(self) -> datetime:
        self._answer("remembers_since")
        return await self.records.remembers_since()

    async def remembered(self, keys: Collection[ArchiveKey]) -> Collection[ArchiveKey]:
        self._answer("remembered")
        found = await self.records.remembered(keys)
        if self.after_remembered:
            await self.after_remembered()
        return found

    async def old_operations(self, after: ArchiveKey | None, limit: int) -> Sequence[ArchiveKey]:
        return await self.records.old_operations(after, limit)

    async def forget(self, keys: Collection[ArchiveKey]) -> None:
        await self.records.forget(keys)


@dataclass
class Store:
    """A collector and everything around it."""

    owner: Connection
    redis: Redis
    records: Watched
    world: MemoryWorld = field(default_factory=MemoryWorld)
    leader: Leader = field(default_factory=Leader)
    changed: list[WorkspaceId] = field(default_factory=list)

    rules: GcRules = RULES
    objection: str | None = None

    async def refusal(self) -> str | None:
        return self.objection

    def __post_init__(self) -> None:
        self.timers = RedisTimers(self.redis)
        self.collector = Collector(
            self.records,
            self.world.archives,
            self.timers,
            self.leader,
            RULES,
            on_change=self.changed.extend,
            refusal=self.refusal,
        )

    async def put_remembered(self, identity: WorkspaceId, *, complete: bool = True) -> ArchiveKey:
        """An archive of an operation that the database began, and moved on from."""
        key = self.put(identity, complete=complete)
        await archive_operations.add(self.owner, [key])
        return key

    def put(self, identity: WorkspaceId, *, complete: bool = True, op_id: OpId | None = None) -> ArchiveKey:
        key = archive_key(identity, op_id or OpId(uuid4()))
        self.world.put_archive(key, {"file": b"x"})
        if not complete:
            self.world.lose_archive(key, "meta")
        return key

    async def add(self, **columns: Any) -> tuple[WorkspaceId, ArchiveKey]:
        """A workspace with its archive."""
        identity, op_id = WorkspaceId(uuid4()), OpId(uuid4())
        key = self.put(identity, op_id=op_id)
        row = {"phase": "ARCHIVED", "desired_state": "ARCHIVED", "archive_key": key, "op_id": op_id, **columns}
        await add_workspace(self.owner, id=identity, **row)
        return identity, key

    async def add_crowd(self, count: int) -> None:
        """So many archives that a few orphans among them are plausible."""
        for _ in range(count):
            await self.add()

    async def waited(self, *keys: str) -> None:
        """Their timers have run for longer than the delay."""
        await self.timers.start(keys, datetime.now(UTC) - RULES.orphan_delay - timedelta(minutes=1))

    async def superseded(self) -> tuple[ArchiveKey, ArchiveKey]:
        """A workspace's old archive, whose time has come, and its present one."""
        identity = WorkspaceId(uuid4())
        old = await self.put_remembered(identity)
        op_id = OpId(uuid4())
        new = self.put(identity, op_id=op_id)
        await add_workspace(
            self.owner, id=identity, phase="ARCHIVED", desired_state="ARCHIVED", archive_key=new, op_id=op_id
        )
        await self.waited(old)
        return old, new


def owner_of(key: str) -> WorkspaceId:
    return WorkspaceId(UUID(key.partition("/")[0]))
