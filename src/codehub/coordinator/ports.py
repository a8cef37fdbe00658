"""What the coordinator's parts need of the world, as narrow Protocols.

`records.py` and `signals/` keep these promises on PostgreSQL and Redis, tests/simulation in memory; one contract suite
runs against both. Every call raises Unavailable when what it needs does not answer in time, and has changed nothing
then, or may have: whoever called looks again.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from codehub.db.losses import Word
from codehub.db.statuses import HistoryEntry, StatusChange
from codehub.model.gc import KnownWorkspace
from codehub.model.suspicion import Place
from codehub.model.ttl import Transition
from codehub.model.workspace import ArchiveKey, InstanceBackend, Workspace, WorkspaceId
from codehub.signals.activity import Visit
from codehub.signals.usage import HomeSize, Measurement


class Leadership(Protocol):
    """Being the leader, as far as this process knows."""

    @property
    def epoch(self) -> int:
        """Fences every write: the database refuses a smaller one than the newest leader's."""
        ...

    def is_fresh(self) -> bool:
        """Whether leadership was confirmed so recently that nobody else can lead: asked before what destroys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one tick wants to read."""

    limit: int  # most rows that need something; more are read with `after`
    after: WorkspaceId | None = None
    but: Collection[WorkspaceId] = ()  # … without these, about which nothing can be decided now
    sweep_limit: int = 0
    sweep_after: WorkspaceId | None = None
    ids: Collection[WorkspaceId] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows, and the database's time: the only clock that rules are given."""

    now: datetime
    needing: Sequence[Workspace]
    swept: Sequence[Workspace] = ()  # shorter than `sweep_limit`: it was the last slice
    named: Sequence[Workspace] = ()


class RowsInStore(Protocol):
    """Workspaces whose home is in the store alone, and where in it; in the trash for as long as that is kept."""

    async def in_store_alone(
        self, retention: timedelta, after: WorkspaceId | None, limit: int
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        """One page, in the order of ids."""
        ...

    async def in_store_alone_of(
        self, retention: timedelta, ids: Collection[WorkspaceId]
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        """Those among these."""
        ...


class Records(RowsInStore, Protocol):
    """The controller's rows."""

    async def read(self, asked: Asked) -> Reading:
        """One transaction; pages are in the order of ids."""
        ...

    async def commit(
        self, epoch: int, changes: Sequence[StatusChange], history: Iterable[HistoryEntry]
    ) -> set[WorkspaceId]:
        """Write what still applies and the history of it, in one transaction; which rows were written.

        `history` entries of rows that were not written are left out. StaleLeader, and nothing written, when a newer
        leader has begun.
        """
        ...

    async def accepted_losses(self) -> Mapping[Place, Word]:
        """Where an administrator said lately of a backend or the store that what it lacks is lost."""
        ...

    async def note_losses(self, epoch: int, place: Place, word: Word) -> None:
        """Whom that word is about, for leaders to come."""
        ...

    async def finish_deletions(self, ids: Collection[WorkspaceId]) -> int:
        """Set deleted_at on those that have stepped down for their deletion (the service layer's column)."""
        ...


@dataclass(frozen=True, slots=True)
class Expiration:
    """A TTL that has run out, and the row it was read from: written only if nothing put it off since."""

    was: Workspace
    transition: Transition


class SettledRecords(Protocol):
    """The rows of those whose homes are on disk and at peace."""

    async def now(self) -> datetime:
        """The database's time."""
        ...

    async def settled_on(self, backend: InstanceBackend) -> Sequence[Workspace]:
        """All that run or stand by there as they should, with nothing going on."""
        ...


class ReserveRecords(SettledRecords, Protocol):
    """The rows of whoever keeps a disk from filling up."""

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        """Set desired_state by compare-and-set on everything that was read; how many were written."""
        ...


class IdleRecords(Protocol):
    """The TTL runner's rows."""

    async def now(self) -> datetime:
        """The database's time."""
        ...

    async def restart_idle_times(self, jump: timedelta) -> int:
        """The database's clock jumped: whoever runs counts as used now, leases keep their length; how many."""
        ...

    async def due(self, limit: int) -> Sequence[Expiration]:
        """Workspaces whose TTL has run out by the database's clock."""
        ...

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        """Set desired_state by compare-and-set on everything that was read; how many were written."""
        ...

    async def touch(self, ages: Mapping[WorkspaceId, float]) -> int:
        """Record how many seconds ago workspaces were last used, by the database's clock; never backwards."""
        ...


class ArchiveRecords(Protocol):
    """GC's rows."""

    async def now(self) -> datetime:
        """The database's time."""
        ...

    async def known(self, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
        """Every workspace there is, deleted ones included, page by page in the order of ids."""
        ...

    async def known_of(self, ids: Collection[WorkspaceId], keys: Collection[str]) -> Sequence[KnownWorkspace]:
        """These workspaces, and any whose source_archive is one of `keys`: the last look before a deletion."""
        ...

    async def remembers_since(self) -> datetime:
        """From this moment on the database has remembered each operation that makes an archive."""
        ...

    async def remembered(self, keys: Collection[ArchiveKey]) -> Collection[ArchiveKey]:
        """Those of them whose operation this database began, or whose archive it has named."""
        ...

    async def old_operations(self, after: ArchiveKey | None, limit: int) -> Sequence[ArchiveKey]:
        """Archives of remembered operations of days ago that no workspace which is not deleted names, in order."""
        ...

    async def forget(self, keys: Collection[ArchiveKey]) -> None:
        """The operations of these archives, which are gone; never what a workspace that is not deleted is doing."""
        ...


class PurgeRecords(ArchiveRecords, Protocol):
    """… and what was deleted for good."""

    async def purged(self, after: WorkspaceId | None, limit: int) -> Sequence[WorkspaceId]:
        """Those of which only archives are left, page by page in the order of ids."""
        ...


class Activity(Protocol):
    """What proxies saw: the sorted set `codehub:activity`."""

    async def visits(self, limit: int) -> Mapping[WorkspaceId, Visit]:
        """The oldest visits that were not taken yet."""
        ...

    async def forget(self, visits: Mapping[WorkspaceId, Visit]) -> None:
        """Remove exactly these: a visit that was renewed since stays."""
        ...

    async def is_continuous(self) -> bool:
        """Whether nothing was lost since the last call: False after a restart or a flush that took the data along."""
        ...


Refusal = Callable[[], Awaitable[str | None]]  # why nothing may be deleted from the archive store, or None


class OrphanTimers(Protocol):
    """Since when each archive has been an orphan. Losing them starts the wait anew."""

    async def all(self) -> Mapping[str, datetime]: ...

    async def start(self, keys: Collection[str], at: datetime) -> None:
        """A timer that runs already is left alone."""
        ...

    async def clear(self, keys: Collection[str]) -> None: ...


class UsageKeeper(Protocol):
    """Where measurements are left for whoever shows them; losing them loses a picture of the past."""

    async def leave(self, newest: Mapping[WorkspaceId, Measurement]) -> None:
        """What each uses at the moment."""
        ...

    async def add(self, points: Mapping[WorkspaceId, Measurement]) -> None:
        """A point of each one's day."""
        ...


class HomeSizeKeeper(Protocol):
    """Where sizes of homes are left for whoever shows them."""

    async def leave_homes(self, sizes: Mapping[WorkspaceId, HomeSize]) -> None: ...
