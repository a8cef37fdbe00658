"""Deletions that arrived (SPEC section 6): a workspace that has stepped down goes to the trash."""

from collections.abc import Collection

from codehub.db import wishes
from codehub.db.pool import Pool, connection
from codehub.model.workspace import WorkspaceId


async def finish(api_pool: Pool, ids: Collection[WorkspaceId]) -> int:
    """Set deleted_at on those of them that are archived or empty, at rest, and still to be deleted; how many."""
    async with connection(api_pool) as conn:
        return await wishes.finish_deletions(conn, ids)
