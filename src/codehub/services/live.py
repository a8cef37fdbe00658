"""What open streams show: workspaces as their owners see them, read for many users at once.

Every call is one short transaction and raises Unavailable when the database does not answer in time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.db import listing, live
from codehub.db.pool import Pool, connection
from codehub.model.workspace import UserId, WorkspaceId
from codehub.services.actors import ActorKind
from codehub.services.workspaces import showing
from codehub.signals.connect import Redis
from codehub.signals.progress import read_progress


@dataclass(frozen=True, slots=True)
class Shown:
    """A workspace as its owner sees it, in JSON; None when it is deleted."""

    id: WorkspaceId
    owner: UserId
    json: bytes | None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a stream was opened with."""

    kind: ActorKind
    id: UUID


class LiveWorkspaces:
    """`retention` is the trash's, `idle` how long a session lives that is not used."""

    def __init__(self, pool: Pool, redis: Redis, *, retention: timedelta, idle: timedelta) -> None:
        self._pool = pool
        self._redis = redis
        self._retention = retention
        self._idle = idle

    async def stamps(self, users: Collection[UserId]) -> Mapping[UserId, Mapping[WorkspaceId, str]]:
        """Every workspace these users see, with a stamp that differs after each writing of its row."""
        found: dict[UserId, dict[WorkspaceId, str]] = {}
        async with connection(self._pool) as conn:
            for owner, which, stamp in await live.stamps(conn, users):
                found.setdefault(owner, {})[which] = stamp
        return found

    async def rows(self, ids: Sequence[WorkspaceId], *, with_progress: bool) -> Sequence[Shown]:
        """These, as far as they exist."""
        async with connection(self._pool) as conn:
            found = await listing.by_ids(conn, ids)
        op_ids = {which: row.workspace.status.op_id for which, row in found.items()}
        made = {
            which: showing.encoded(row, self._retention)
            for which, row in found.items()
            if row.workspace.wish.deleted_at is None
        }
        busy = [which for which, each in made.items() if each.busy] if with_progress else []
        jobs = {
            which: showing.Progress(job.bytes, job.files)
            for which, job in (await read_progress(self._redis, busy)).items()
            if job.op_id == op_ids[which]
        }
        return [
            Shown(
                which,
                row.workspace.owner_user_id,
                made[which].with_progress(jobs.get(which)) if which in made else None,
            )
            for which, row in found.items()
        ]

    async def alive(self, credentials: Collection[Credential]) -> Collection[Credential]:
        """Those that have not ended."""
        sessions = [each.id for each in credentials if each.kind is ActorKind.USER]
        tokens = [each.id for each in credentials if each.kind is ActorKind.TOKEN]
        async with connection(self._pool) as conn:
            alive = await live.alive(conn, sessions, tokens, self._idle)
        return {each for each in credentials if each.id in alive}
