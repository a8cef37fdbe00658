"""What TTLs and visits ask for (SPEC section 7): idle workspaces step down, used ones are left in peace.

Times are the database's; a TTL loses to whatever happened since the row was read.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from codehub.db import clock, reads, wishes
from codehub.db.pool import Pool, connection
from codehub.model import ttl
from codehub.model.workspace import Workspace, WorkspaceId


async def due(api_pool: Pool, limit: int) -> Sequence[tuple[Workspace, ttl.Transition]]:
    """Workspaces whose TTL has run out, and what it asks for."""
    async with connection(api_pool) as conn:
        now = await clock.now(conn)
        found = await reads.ttl_candidates(conn, limit)
    pairs = ((workspace, ttl.due(workspace, now)) for workspace in found)
    return [(workspace, transition) for workspace, transition in pairs if transition is not None]


async def expire(api_pool: Pool, expired: Sequence[tuple[Workspace, ttl.Transition]]) -> int:
    """Ask for what the TTLs say, wherever nothing put them off since; how many were written."""
    async with connection(api_pool) as conn:
        return await wishes.expire(conn, expired)


async def record_visits(api_pool: Pool, visits: Mapping[WorkspaceId, datetime]) -> int:
    """Note when workspaces were last used; never backwards, never into the future."""
    async with connection(api_pool) as conn:
        return await wishes.touch_access(conn, visits)
