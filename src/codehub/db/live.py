"""What open streams ask the database: which workspaces their users have, and which of their credentials still hold."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from codehub.db.pool import Connection
from codehub.model.workspace import UserId, WorkspaceId

# idx_workspaces_owner_here. The stamp is the one of listing.py: another writing of the row has another.
STAMPS = """
SELECT owner_user_id, id, xmin::text || ctid::text FROM workspaces
WHERE owner_user_id = ANY(%s) AND deleted_at IS NULL ORDER BY owner_user_id, created_at, id
"""

ALIVE = """
SELECT c.id FROM (
    SELECT s.id, s.user_id FROM sessions s
    WHERE s.id = ANY(%(sessions)s) AND s.expires_at > now() AND s.last_seen_at > now() - %(idle)s
    UNION ALL
    SELECT t.id, t.user_id FROM tokens t
    WHERE t.id = ANY(%(tokens)s) AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
) AS c JOIN users u ON u.id = c.user_id
WHERE u.disabled_at IS NULL
"""


async def stamps(conn: Connection, users: Collection[UserId]) -> Sequence[tuple[UserId, WorkspaceId, str]]:
    """Every workspace of these users that is not deleted, in the order of creation, and which writing of it."""
    cursor = await conn.execute(STAMPS, [list(users)])
    return [(UserId(owner), WorkspaceId(which), stamp) for owner, which, stamp in await cursor.fetchall()]


async def alive(
    conn: Connection, sessions: Collection[UUID], tokens: Collection[UUID], idle: timedelta
) -> Collection[UUID]:
    """Those sessions and tokens that have not ended, of users who may log in."""
    values = {"sessions": list(sessions), "tokens": list(tokens), "idle": idle}
    return {which for (which,) in await (await conn.execute(ALIVE, values)).fetchall()}
