"""What administrators look at and ask for: how much runs, what was done by whom, collections of archives, losses."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from codehub.db import audit_pages, gc_runs, limits, losses
from codehub.db.audit_pages import AuditFilter, AuditLine
from codehub.db.gc_runs import GcPlace, GcRun
from codehub.db.limits import RunningOfUser
from codehub.db.pool import Pool, connection
from codehub.errors import Conflict
from codehub.model.limits import Quota
from codehub.model.workspace import InstanceBackend
from codehub.services import audit
from codehub.services.actors import Actor

_MOST_USERS = 200
_MOST_WAITING = 5


@dataclass(frozen=True, slots=True)
class LimitsInUse:
    """How many may run and how many do; those who use most, first."""

    quota: Quota
    total: int
    users: Sequence[RunningOfUser]


async def limits_in_use(pool: Pool, quota: Quota, actor: Actor) -> LimitsInUse:
    actor.require_admin()
    async with connection(pool) as conn:
        return LimitsInUse(quota, await limits.count_running(conn), await limits.running_by_user(conn, _MOST_USERS))


async def audit_page(
    pool: Pool, actor: Actor, asked: AuditFilter, after: int | None, limit: int
) -> tuple[Sequence[AuditLine], int | None]:
    """The newest entries first, and where the rest begins."""
    actor.require_admin()
    async with connection(pool) as conn:
        lines = await audit_pages.page(conn, asked, after, limit + 1)
    return lines[:limit], lines[limit - 1].id if len(lines) > limit else None


async def request_gc(pool: Pool, actor: Actor, *, dry_run: bool, override: bool, unknown_too: bool) -> UUID:
    """Ask the leader for a collection, which it begins at once."""
    actor.require_admin()
    asked = {"dry_run": dry_run, "override": override, "unknown_too": unknown_too}
    async with connection(pool) as conn:
        if await gc_runs.waiting(conn) >= _MOST_WAITING:
            raise Conflict(
                f"{_MOST_WAITING} collections are waiting already.",
                "See whether a coordinator runs, and wait for them.",
            )
        identity = await gc_runs.request(conn, actor.user_id, **asked)
        await audit.record(conn, actor, "gc.request", None, request=identity, **asked)
    return identity


async def gc_page(
    pool: Pool, actor: Actor, after: GcPlace | None, limit: int
) -> tuple[Sequence[GcRun], GcPlace | None]:
    """The newest runs first, and where the rest begins."""
    actor.require_admin()
    async with connection(pool) as conn:
        runs = await gc_runs.page(conn, after, limit + 1)
    last = runs[limit - 1] if len(runs) > limit else None
    return runs[:limit], None if last is None else GcPlace(last.requested_at, last.id)


async def accept_losses(pool: Pool, actor: Actor, backend: InstanceBackend) -> None:
    """Say that the homes which this backend lacks are lost: their workspaces become errors that can be recovered."""
    actor.require_admin()
    async with connection(pool) as conn:
        await losses.accept(conn, backend, actor.user_id)
        await audit.record(conn, actor, "losses.accept", None, backend=backend)
