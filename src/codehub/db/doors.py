"""What the proxy asks: who may enter which workspaces now, all in one statement, as a role that can do little else.

A door is a workspace (or a forwarded port of it) with the secret that somebody came with. It opens for

- the owner's session, or the owner's token that may write;
- an administrator's, after the service layer has made a visit of it, with its entry in the audit log; where path mode
  is guarded only their token's, since a session shows pages there (ADR 22);
- the secret of a visit itself, which is a browser's at the workspace's own origin;

while the credential behind it has not ended and the workspace runs and is not to be deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from codehub.db.pool import Connection
from codehub.model.visiting import Destination


class Came(StrEnum):
    """What somebody came with."""

    SESSION = "session"
    TOKEN = "token"  # noqa: S105 - a kind, not a secret
    VISIT = "visit"


@dataclass(frozen=True, slots=True)
class Door:
    """Somebody with a secret, before a workspace or one of its ports."""

    came: Came
    secret_hash: bytes
    to: Destination


@dataclass(frozen=True, slots=True)
class Opened:
    """The door is open: where the workspace is reached, as which of its instances."""

    endpoint: str
    op_id: UUID
    session: UUID | None  # the credential behind it: a session …
    token: UUID | None  # … or a token
    is_stale: bool  # its last use was noted more than a minute ago


_SESSION = """
    s.id AS session_id, NULL::uuid AS token_id, s.user_id, s.last_seen_at < now() - interval '1 minute' AS stale
"""
_SESSION_LIVES = "s.expires_at > now() AND s.last_seen_at > now() - %(idle)s"

# Each credential is found by its hash, each workspace by its id: the cost is that of the doors in use.
OPEN = f"""
WITH asked AS (
    SELECT * FROM unnest(%(came)s::text[], %(hashes)s::bytea[], %(workspaces)s::uuid[], %(ports)s::int[])
        WITH ORDINALITY AS a (came, hash, workspace_id, port, n)
), held AS (
    SELECT a.n, a.came, a.workspace_id, {_SESSION}
    FROM asked a JOIN sessions s ON s.token_hash = a.hash
    WHERE a.came = 'session' AND {_SESSION_LIVES}
    UNION ALL
    SELECT a.n, a.came, a.workspace_id, {_SESSION}
    FROM asked a JOIN visits v ON v.token_hash = a.hash JOIN sessions s ON s.id = v.session_id
    WHERE a.came = 'visit' AND v.workspace_id = a.workspace_id AND v.port IS NOT DISTINCT FROM a.port
      AND v.expires_at > now() AND {_SESSION_LIVES}
    UNION ALL
    SELECT a.n, a.came, a.workspace_id, NULL, t.id, t.user_id,
           t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute'
    FROM asked a JOIN tokens t ON t.token_hash = a.hash
    WHERE a.came = 'token' AND t.scope = 'write' AND t.revoked_at IS NULL
      AND (t.expires_at IS NULL OR t.expires_at > now())
)
SELECT h.n, w.endpoint, w.op_id, h.session_id, h.token_id, h.stale
FROM held h JOIN users u ON u.id = h.user_id JOIN workspaces w ON w.id = h.workspace_id
WHERE u.disabled_at IS NULL AND w.phase = 'RUNNING' AND w.endpoint IS NOT NULL AND w.op_id IS NOT NULL
  AND w.deleted_at IS NULL AND w.desired_state <> 'DELETED'
  AND (w.owner_user_id = u.id OR u.role = 'admin' AND (h.came = 'visit' OR EXISTS (
        SELECT FROM visits v WHERE v.token_hash IS NULL AND v.workspace_id = w.id AND v.expires_at > now()
            AND (v.session_id = h.session_id AND NOT %(guarded)s OR v.token_id = h.token_id))))
"""  # noqa: S608 - constants

TOUCH_SESSIONS = (
    "UPDATE sessions SET last_seen_at = now() WHERE id = ANY(%s) AND last_seen_at < now() - interval '30 s'"
)
TOUCH_TOKENS = """
UPDATE tokens SET last_used_at = now()
WHERE id = ANY(%s) AND (last_used_at IS NULL OR last_used_at < now() - interval '30 s')
"""


async def opened(
    conn: Connection, doors: Sequence[Door], idle: timedelta, *, is_guarded: bool
) -> Mapping[Door, Opened]:
    """Those that are open. `idle` is how long a session lives that is not used; path mode is guarded or trusted."""
    values = {
        "came": [door.came.value for door in doors],
        "hashes": [door.secret_hash for door in doors],
        "workspaces": [door.to.workspace for door in doors],
        "ports": [door.to.port for door in doors],
        "idle": idle,
        "guarded": is_guarded,
    }
    rows = await (await conn.execute(OPEN, values)).fetchall()
    return {doors[n - 1]: Opened(*rest) for n, *rest in rows}


async def touch(conn: Connection, sessions: Collection[UUID], tokens: Collection[UUID]) -> None:
    """Note that they are in use."""
    if sessions:
        await conn.execute(TOUCH_SESSIONS, [list(sessions)])
    if tokens:
        await conn.execute(TOUCH_TOKENS, [list(tokens)])
