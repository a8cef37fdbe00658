"""What a workspace uses, as the leader measured it last, beside what it may use."""

from codehub.db.pool import Pool, connection
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import find
from codehub.signals.connect import Redis
from codehub.signals.usage import Usage, read_usage


async def usage_of(pool: Pool, redis: Redis, actor: Actor, identity: WorkspaceId) -> Usage:
    """Numbers only, so an administrator's look at somebody else's is not audited."""
    async with connection(pool) as conn:
        await find(conn, actor, identity)
    return await read_usage(redis, identity)
