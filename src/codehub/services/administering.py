"""What administrators look at and ask for: how much runs, what was done by whom, collections of archives, losses."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from codehub.db import archive_operations, archives, gc_runs, limits, losses
from codehub.db import audit_pages as audit_reads
from codehub.db.audit_pages import AuditFilter, AuditLine
from codehub.db.gc_runs import GcPlace, GcRun
from codehub.db.limits import RunningOfUser
from codehub.db.pool import Pool, connection
from codehub.errors import Conflict, Invalid, NotFound
from codehub.model.limits import Quota, SetLimits
from codehub.model.names import parse_archive_key
from codehub.model.suspicion import Place
from codehub.model.workspace import ArchiveKey, UserId
from codehub.services import audit
from codehub.services.actors import Actor

_MOST_USERS = 200
_MOST_WAITING = 5
_AUDIT_PAGE = 1000


@dataclass(frozen=True, slots=True)
class LimitsInUse:
    """How many may run and how many do; those who use most, first."""

    quota: Quota  # what holds for all
    configured: Quota  # … where nothing is set
    limits: Mapping[UserId | None, SetLimits]  # what is set: for all (None), and for those who use most
    total: int
    users: Sequence[RunningOfUser]

    def per_user(self, user: UserId) -> int:
        return self.limits.get(user, SetLimits()).over(self.quota).per_user


async def limits_in_use(pool: Pool, configured: Quota, actor: Actor) -> LimitsInUse:
    actor.require_admin()
    async with connection(pool) as conn:
        users = await limits.running_by_user(conn, _MOST_USERS)
        found = await limits.limits_set(conn, [each.user_id for each in users])
        total = await limits.count_running(conn)
    return LimitsInUse(found[None].over(configured), configured, found, total, users)


async def change_limits(pool: Pool, actor: Actor, wanted: SetLimits) -> None:
    """What holds for all from now on, None being what is configured. Nobody who runs is stopped by it."""
    actor.require_admin()
    async with connection(pool) as conn:
        await limits.change_limits(conn, wanted)
        await audit.record(conn, actor, "limits.change", **asdict(wanted))


async def audit_page(
    pool: Pool, actor: Actor, asked: AuditFilter, after: int | None, limit: int
) -> tuple[Sequence[AuditLine], int | None]:
    """The newest entries first, and where the rest begins."""
    actor.require_admin()
    async with connection(pool) as conn:
        lines = await audit_reads.page(conn, asked, after, limit + 1)
    return lines[:limit], lines[limit - 1].id if len(lines) > limit else None


async def audit_pages(pool: Pool, actor: Actor, asked: AuditFilter) -> AsyncIterator[Sequence[AuditLine]]:
    """Every entry, the newest first, a page at a time; nothing is held in between."""
    after: int | None = None
    while True:
        lines, after = await audit_page(pool, actor, asked, after, _AUDIT_PAGE)
        yield lines
        if after is None:
            return


async def request_gc(
    pool: Pool, actor: Actor, *, dry_run: bool, override: bool, unknown_too: bool, orphans: bool = False
) -> UUID:
    """Ask the leader for a collection, which it begins at once; `orphans`: of instances and volumes, not archives."""
    actor.require_admin()
    if orphans and unknown_too:
        raise Invalid("unknown_too: it is about archives, and orphans is not.", "Leave one of them out.")
    asked = {"dry_run": dry_run, "override": override, "unknown_too": unknown_too, "orphans": orphans}
    async with connection(pool) as conn:
        if await gc_runs.waiting(conn) >= _MOST_WAITING:
            raise Conflict(
                f"{_MOST_WAITING} collections are waiting already.",
                "See whether a coordinator runs, and wait for them.",
            )
        identity = await gc_runs.request(conn, actor.user_id, **asked)
        await audit.record(conn, actor, "gc.request", None, request=identity, **asked)
    return identity


async def discard_archives(pool: Pool, actor: Actor, keys: Sequence[str]) -> None:
    """Say that nobody wants these archives of a future that the database lost: they go as other orphans do."""
    actor.require_admin()
    owners = {ArchiveKey(key): parse_archive_key(key).workspace_id for key in keys}
    async with connection(pool) as conn:
        rows = {row.id: row for row in await archives.known_of(conn, list(owners.values()), [])}
        for key, owner in owners.items():
            row = rows.get(owner)
            if row is None:
                raise NotFound(
                    f"The database knows no workspace {owner}.",
                    "Archives of unknown workspaces go with: codehub gc --unknown-too",
                )
            if row.archive_key == key and row.purged_at is None:
                raise Conflict(f"{key} is the archive of a workspace.", "Purge the workspace to be rid of it.")
        await archive_operations.add(conn, list(owners))
        for key, owner in owners.items():
            await audit.record(conn, actor, "gc.discard", owner, archive=key)


async def gc_page(
    pool: Pool, actor: Actor, after: GcPlace | None, limit: int
) -> tuple[Sequence[GcRun], GcPlace | None]:
    """The newest runs first, and where the rest begins."""
    actor.require_admin()
    async with connection(pool) as conn:
        runs = await gc_runs.page(conn, after, limit + 1)
    last = runs[limit - 1] if len(runs) > limit else None
    return runs[:limit], None if last is None else GcPlace(last.requested_at, last.id)


async def accept_losses(pool: Pool, actor: Actor, place: Place) -> None:
    """Say that what this backend, or the store, lacks is lost: the workspaces become errors that can be recovered."""
    actor.require_admin()
    async with connection(pool) as conn:
        await losses.accept(conn, place, actor.user_id)
        await audit.record(conn, actor, "losses.accept", None, backend=str(place))
