"""What TTLs and visits ask for (SPEC section 7): idle workspaces step down, used ones are left in peace.

Times are the database's; a TTL loses to whatever happened since the row was read.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from codehub.db import clock, reads, wishes
from codehub.db.pool import Pool, connection
from codehub.model import ttl
from codehub.model.workspace import InstanceBackend, Workspace, WorkspaceId


async def due(api_pool: Pool, limit: int) -> Sequence[tuple[Workspace, ttl.Transition]]:
    """Workspaces whose TTL has run out, and what it asks for."""
    async with connection(api_pool) as conn:
        now = await clock.now(conn)
        found = await reads.ttl_candidates(conn, limit)
    pairs = ((workspace, ttl.due(workspace, now)) for workspace in found)
    return [(workspace, transition) for workspace, transition in pairs if transition is not None]


async def settled_on(api_pool: Pool, backend: InstanceBackend) -> Sequence[Workspace]:
    """What runs or stands by on a backend as it should, with nothing going on."""
    async with connection(api_pool) as conn:
        return await reads.settled_on(conn, backend)


async def expire(api_pool: Pool, expired: Sequence[tuple[Workspace, ttl.Transition]]) -> int:
    """Ask for what the TTLs say, wherever nothing put them off since; how many were written."""
    async with connection(api_pool) as conn:
        return await wishes.expire(conn, expired)


async def record_visits(api_pool: Pool, ages: Mapping[WorkspaceId, float]) -> int:
    """Note how many seconds ago workspaces were last used; never backwards."""
    async with connection(api_pool) as conn:
        return await wishes.touch_access(conn, ages)


async def restart_idle_times(api_pool: Pool, jump: timedelta) -> int:
    """The database's clock jumped by this much: whoever runs counts as used now; how many."""
    async with connection(api_pool) as conn:
        return await wishes.restart_idle_times(conn, jump)
