"""Visits, as the service layer makes them. Secrets are kept as hashes; what a visit opens is doors.py's to say."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from codehub.db.pool import Connection
from codehub.model.visiting import Destination
from codehub.model.workspace import UserId, WorkspaceId


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose browser it is that has entered, and the session that it did so with."""

    user_id: UserId
    username: str
    role: str
    session: UUID


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session that may enter, and as whom."""

    user_id: UserId
    username: str
    owner_id: UserId


# The session that a code was drawn in, if it still lives, and its user may still enter.
ARRIVE = """
SELECT u.id, u.username, w.owner_user_id
FROM sessions s JOIN users u ON u.id = s.user_id JOIN workspaces w ON w.id = %(workspace)s
WHERE s.id = %(session)s AND s.expires_at > now() AND s.last_seen_at > now() - %(idle)s AND u.disabled_at IS NULL
  AND (w.owner_user_id = u.id OR u.role = 'admin') AND w.deleted_at IS NULL
FOR KEY SHARE OF s
"""

INSERT = """
INSERT INTO visits (token_hash, session_id, workspace_id, port, expires_at)
SELECT %(hash)s, s.id, %(workspace)s, %(port)s, least(s.expires_at, now() + %(lifetime)s)
FROM sessions s WHERE s.id = %(session)s
"""

# Of one who is let in on the main origin. Its transaction also holds the entry in the audit log.
LET_IN = """
INSERT INTO visits (session_id, token_id, workspace_id, expires_at)
SELECT %(session)s::uuid, %(token)s::uuid, %(workspace)s, now() + %(lifetime)s
WHERE NOT EXISTS (
    SELECT FROM visits v WHERE v.token_hash IS NULL AND v.workspace_id = %(workspace)s AND v.expires_at > now()
        AND (v.session_id = %(session)s::uuid OR v.token_id = %(token)s::uuid))
"""

# The browser whose visit this is: may it still enter, as doors.py has it, whether the workspace runs or not?
VISITOR = """
SELECT u.id, u.username, u.role, s.id
FROM visits v JOIN sessions s ON s.id = v.session_id JOIN users u ON u.id = s.user_id
    JOIN workspaces w ON w.id = v.workspace_id
WHERE v.token_hash = %(hash)s AND v.workspace_id = %(workspace)s AND v.port IS NOT DISTINCT FROM %(port)s::int
  AND v.expires_at > now() AND s.expires_at > now() AND s.last_seen_at > now() - %(idle)s AND u.disabled_at IS NULL
  AND (w.owner_user_id = u.id OR u.role = 'admin')
"""

# idx_audit_log_workspace
PAGE = """
SELECT a.at, u.username FROM audit_log a LEFT JOIN users u ON u.id = a.actor_user_id
WHERE a.workspace_id = %s AND a.action = 'workspace.visit' ORDER BY a.at DESC, a.id DESC LIMIT %s
"""

# As the rows' own trigger tells of a change: whoever has this user inside looks at once whether they still may be.
TELL = """
SELECT pg_notify('ws_sse', json_build_object('id', w.id, 'owner_user_id', w.owner_user_id)::text)
FROM workspaces w
WHERE w.deleted_at IS NULL AND w.phase = 'RUNNING' AND (w.owner_user_id = %(user)s OR w.id IN (
    SELECT v.workspace_id FROM visits v JOIN sessions s ON s.id = v.session_id WHERE s.user_id = %(user)s
    UNION ALL
    SELECT v.workspace_id FROM visits v JOIN tokens t ON t.id = v.token_id WHERE t.user_id = %(user)s))
"""

PRUNE = """
DELETE FROM visits WHERE id IN (SELECT id FROM visits WHERE expires_at <= now() LIMIT %s)
"""


async def arrive(conn: Connection, session: UUID, workspace: WorkspaceId, idle: timedelta) -> Arrival | None:
    """Who comes; None when they may not, or no longer. The session is kept until the transaction has ended."""
    row = await (await conn.execute(ARRIVE, {"session": session, "workspace": workspace, "idle": idle})).fetchone()
    return None if row is None else Arrival(*row)


async def insert(conn: Connection, session: UUID, secret_hash: bytes, to: Destination, lifetime: timedelta) -> None:
    """A browser's, at the workspace's own origin; it ends with the session at the latest."""
    values = {"hash": secret_hash, "session": session, "workspace": to.workspace, "port": to.port, "lifetime": lifetime}
    await conn.execute(INSERT, values)


async def let_in(
    conn: Connection, *, session: UUID | None, token: UUID | None, workspace: WorkspaceId, lifetime: timedelta
) -> bool:
    """On the main origin; False when this credential is let in already."""
    values = {"session": session, "token": token, "workspace": workspace, "lifetime": lifetime}
    return (await conn.execute(LET_IN, values)).rowcount == 1


async def visitor(conn: Connection, secret_hash: bytes, to: Destination, idle: timedelta) -> Visitor | None:
    """Whose visit this is, if there is such a one, and it has not ended."""
    values = {"hash": secret_hash, "workspace": to.workspace, "port": to.port, "idle": idle}
    row = await (await conn.execute(VISITOR, values)).fetchone()
    return None if row is None else Visitor(*row)


async def by_others(conn: Connection, workspace: WorkspaceId, limit: int) -> Sequence[tuple[datetime, str | None]]:
    """When administrators entered it, the newest first, and which."""
    rows = await (await conn.execute(PAGE, [workspace, limit])).fetchall()
    return [(at, username) for at, username in rows]


async def tell_of_revocation(conn: Connection, user: UserId) -> None:
    """Before a login of this user's ends, in the same transaction; heard when that is committed."""
    await conn.execute(TELL, {"user": user})


async def prune(conn: Connection, limit: int) -> int:
    """Forget up to `limit` that have ended; how many."""
    return (await conn.execute(PRUNE, [limit])).rowcount
