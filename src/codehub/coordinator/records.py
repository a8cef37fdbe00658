"""PostgreSQL behind the coordinator's ports: each call is one transaction, under the role that owns what it writes.

What the controller owns is written here; what the service layer owns is asked of the services. Unavailable when the
database does not answer in time; no other trouble of the database's gets out but StaleLeader.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from codehub.config import AccountConfig
from codehub.coordinator.ports import Asked, Expiration, Reading
from codehub.db import (
    adoption,
    archive_operations,
    archives,
    audit,
    burying,
    clock,
    gc_runs,
    leadership,
    losses,
    lost_commits,
    reads,
    samples,
    store_owner,
)
from codehub.db.adoption import AdoptionDue
from codehub.db.census import Census
from codehub.db.census import count as count_workspaces
from codehub.db.commits import commit_statuses
from codehub.db.gc_runs import GcRequest
from codehub.db.losses import Word
from codehub.db.lost_commits import CommitCount, LostCommits
from codehub.db.pool import Pool, connection
from codehub.db.statuses import HistoryEntry, StatusChange, prune_history
from codehub.model.gc import KnownWorkspace
from codehub.model.store_owner import StoreClaim
from codehub.model.suspicion import Place
from codehub.model.workspace import ArchiveKey, InstanceBackend, Workspace, WorkspaceId
from codehub.services import accounts, deletion, expiry, sessions


class DatabaseRecords:
    """Implements ports.Records, IdleRecords and ArchiveRecords, HistoryRecords and GcLedger."""

    def __init__(self, controller_pool: Pool, api_pool: Pool) -> None:
        self._controller = controller_pool
        self._api = api_pool
        self.newest_commit = 0  # of those that the database has confirmed to this process …
        self._database: str | None = None  # … and which database that was

    async def read(self, asked: Asked) -> Reading:
        async with connection(self._controller) as conn:
            now = await clock.now(conn)
            return Reading(
                now=now,
                needing=await reads.needing_work(conn, now, asked.limit, asked.after, asked.but) if asked.limit else (),
                swept=await reads.sweep(conn, asked.sweep_after, asked.sweep_limit) if asked.sweep_limit else (),
                named=await reads.by_ids(conn, asked.ids) if asked.ids else (),
            )

    async def commit(
        self, epoch: int, changes: Sequence[StatusChange], history: Iterable[HistoryEntry]
    ) -> set[WorkspaceId]:
        """Rows that the database refuses are logged and left out; they cost the others nothing."""
        async with connection(self._controller) as conn:
            written = await commit_statuses(conn, epoch, changes, history, after=self.newest_commit)
        self.newest_commit = max(self.newest_commit, written.commit)
        return written.ids

    async def commit_count(self) -> CommitCount:
        async with connection(self._controller) as conn:
            count = await lost_commits.read_count(conn)
        if count.database != self._database:
            self.newest_commit, self._database = 0, count.database
        return count

    def go_on_from(self, commit: int) -> None:
        self.newest_commit = commit

    async def note_lost_commits(self, epoch: int, count: int) -> LostCommits | None:
        async with connection(self._controller) as conn:
            return await lost_commits.note_lost(conn, epoch, count)

    async def store_claim(self) -> StoreClaim:
        async with connection(self._controller) as conn:
            return await store_owner.claim(conn)

    async def add_store_token(self, epoch: int, token: UUID, in_store: UUID | None) -> bool:
        async with connection(self._controller) as conn:
            return await store_owner.add_token(conn, epoch, token, in_store)

    async def note_store_trouble(self, epoch: int, trouble: str | None) -> None:
        async with connection(self._controller) as conn:
            await store_owner.note_trouble(conn, epoch, trouble)

    async def adoption_due(self) -> AdoptionDue | None:
        async with connection(self._controller) as conn:
            return await adoption.look(conn)

    async def in_store_alone(
        self, retention: timedelta, after: WorkspaceId | None, limit: int
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        async with connection(self._controller) as conn:
            return await archives.in_store_alone(conn, retention, after, limit)

    async def in_store_alone_of(
        self, retention: timedelta, ids: Collection[WorkspaceId]
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        async with connection(self._controller) as conn:
            return await archives.in_store_alone_of(conn, retention, ids)

    async def accepted_losses(self) -> Mapping[Place, Word]:
        async with connection(self._controller) as conn:
            return await losses.accepted(conn)

    async def note_losses(self, epoch: int, place: Place, word: Word) -> None:
        async with connection(self._controller) as conn:
            await losses.note(conn, epoch, place, word)

    async def note_unknown(self, epoch: int, count: int) -> None:
        """How many containers and volumes belong to no workspace."""
        async with connection(self._controller) as conn:
            await leadership.note_unknown(conn, epoch, count)

    async def finish_deletions(self, ids: Collection[WorkspaceId]) -> int:
        return await deletion.finish(self._api, ids) if ids else 0

    async def due(self, limit: int) -> Sequence[Expiration]:
        return [Expiration(was, transition) for was, transition in await expiry.due(self._api, limit)]

    async def settled_on(self, backend: InstanceBackend) -> Sequence[Workspace]:
        return await expiry.settled_on(self._api, backend)

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        if not expirations:
            return 0
        return await expiry.expire(self._api, [(each.was, each.transition) for each in expirations])

    async def touch(self, ages: Mapping[WorkspaceId, float]) -> int:
        return await expiry.record_visits(self._api, ages) if ages else 0

    async def restart_idle_times(self, jump: timedelta) -> int:
        return await expiry.restart_idle_times(self._api, jump)

    async def now(self) -> datetime:
        async with connection(self._controller) as conn:
            return await clock.now(conn)

    async def known(self, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
        async with connection(self._controller) as conn:
            return await archives.known(conn, after, limit)

    async def purged(self, after: WorkspaceId | None, limit: int) -> Sequence[WorkspaceId]:
        async with connection(self._controller) as conn:
            return await archives.purged(conn, after, limit)

    async def known_of(self, ids: Collection[WorkspaceId], keys: Collection[str]) -> Sequence[KnownWorkspace]:
        async with connection(self._controller) as conn:
            return await archives.known_of(conn, ids, keys)

    async def remembers_since(self) -> datetime:
        async with connection(self._controller) as conn:
            return await archive_operations.since(conn)

    async def remembered(self, keys: Collection[ArchiveKey]) -> Collection[ArchiveKey]:
        async with connection(self._controller) as conn:
            return await archive_operations.remembered(conn, keys)

    async def old_operations(self, after: ArchiveKey | None, limit: int) -> Sequence[ArchiveKey]:
        async with connection(self._controller) as conn:
            return await archive_operations.old(conn, after, limit)

    async def forget(self, keys: Collection[ArchiveKey]) -> None:
        if keys:
            async with connection(self._controller) as conn:
                await archive_operations.forget(conn, keys)

    async def census(self) -> Census:
        async with connection(self._controller) as conn:
            return await count_workspaces(conn)

    async def take_gc_request(self) -> GcRequest | None:
        async with connection(self._controller) as conn:
            return await gc_runs.take(conn)

    async def finish_gc_request(self, identity: UUID, report: Mapping[str, Any]) -> None:
        async with connection(self._controller) as conn:
            await gc_runs.finish(conn, identity, report)

    async def record_gc(self, started_at: datetime, report: Mapping[str, Any]) -> None:
        async with connection(self._controller) as conn:
            await gc_runs.record(conn, started_at, report)

    async def prune_history(self, older_than: timedelta, limit: int) -> int:
        """Forget up to `limit` of the oldest lines of history that are older than that; how many."""
        async with connection(self._controller) as conn:
            return await prune_history(conn, await clock.now(conn) - older_than, limit)

    async def prune_audit(self, older_than: timedelta, limit: int) -> int:
        """The same of the audit log."""
        async with connection(self._controller) as conn:
            return await audit.prune(conn, older_than, limit)

    async def bury(self, older_than: timedelta, limit: int) -> int:
        """The same of workspaces that were deleted, and of which nothing is left."""
        async with connection(self._controller) as conn:
            return await burying.bury(conn, await clock.now(conn) - older_than, limit)

    async def take_sample(self, retention: timedelta) -> None:
        """Count the workspaces of each phase, and forget counts that are older than that."""
        async with connection(self._controller) as conn:
            await samples.take(conn, retention)

    async def tend_accounts(self, config: AccountConfig) -> bool:
        """Let what disabled users have running step down, and forget sessions that have ended; True: more have."""
        await accounts.step_down_disabled(self._api)
        return await sessions.prune(self._api, config)
