"""API tokens of programs. Only their hashes are kept; a revoked one stays in the list of what there was."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row

from codehub.db.pool import Connection
from codehub.db.sessions import Holder
from codehub.model.workspace import UserId


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token that is not revoked, without what it is."""

    id: UUID
    name: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


_ALIVE = "t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())"

INSERT = """
INSERT INTO tokens (id, user_id, name, token_hash, scope, expires_at, parent_id)
SELECT gen_random_uuid(), %(user)s, %(name)s, %(hash)s, %(scope)s,
       least(now() + %(lifetime)s, (SELECT expires_at FROM tokens WHERE id = %(parent)s)), %(parent)s
RETURNING id, name, scope::text, created_at, expires_at, last_used_at
"""

FIND = f"""
SELECT t.token_hash, t.id, u.id, u.username, u.role::text, t.scope::text,
       t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute'
FROM tokens t JOIN users u ON u.id = t.user_id
WHERE t.token_hash = ANY(%s) AND {_ALIVE} AND u.disabled_at IS NULL
"""  # noqa: S608 - constants

TOUCH = """
UPDATE tokens SET last_used_at = now()
WHERE id = %s AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
"""

LIST = """
SELECT id, name, scope::text, created_at, expires_at, last_used_at FROM tokens
WHERE user_id = %s AND revoked_at IS NULL ORDER BY created_at, id
"""

STATE = f"""
SELECT t.expires_at FROM tokens t JOIN users u ON u.id = t.user_id
WHERE t.id = %s AND {_ALIVE} AND u.disabled_at IS NULL
"""  # noqa: S608 - constants

COUNT = "SELECT count(*) FROM tokens WHERE user_id = %s AND revoked_at IS NULL"
REVOKE = "UPDATE tokens SET revoked_at = now() WHERE id = %s AND user_id = %s AND revoked_at IS NULL"
_REVOKE_MADE_WITH = """
WITH RECURSIVE ended (id) AS (
    {} UNION SELECT t.id FROM tokens t JOIN ended ON t.parent_id = ended.id
)
UPDATE tokens SET revoked_at = now() FROM ended
WHERE tokens.parent_id = ended.id AND tokens.user_id = %(user)s AND tokens.revoked_at IS NULL
"""
REVOKE_MADE_WITH = _REVOKE_MADE_WITH.format("SELECT %(credential)s::uuid")
REVOKE_MADE_IN_SESSIONS = _REVOKE_MADE_WITH.format(
    "SELECT s.id FROM sessions s WHERE s.user_id = %(user)s AND s.id IS DISTINCT FROM %(but)s::uuid"
)
REVOKE_ALL = "UPDATE tokens SET revoked_at = now() WHERE user_id = %s AND revoked_at IS NULL"


async def insert(
    conn: Connection,
    user: UserId,
    token_hash: bytes,
    *,
    name: str,
    scope: str,
    lifetime: timedelta | None,
    parent: UUID | None = None,
) -> TokenRow:
    """A new token; `parent` is the session or token it was made with. It ends no later than a token that is."""
    values = {
        "user": user, "hash": token_hash, "name": name, "scope": scope, "lifetime": lifetime, "parent": parent,
    }  # fmt: skip
    async with conn.cursor(row_factory=class_row(TokenRow)) as cursor:
        await cursor.execute(INSERT, values)
        row = await cursor.fetchone()
    assert row is not None
    return row


async def find(conn: Connection, hashes: Sequence[bytes]) -> dict[bytes, Holder]:
    """Whose they are; without those that have ended, never were, or whose user may not log in."""
    rows = await (await conn.execute(FIND, [list(hashes)])).fetchall()
    return {token_hash: Holder(*row) for token_hash, *row in rows}


async def touch(conn: Connection, token: UUID) -> None:
    """Note that it is in use, at most once a minute."""
    await conn.execute(TOUCH, [token])


async def of_user(conn: Connection, user: UserId) -> Sequence[TokenRow]:
    async with conn.cursor(row_factory=class_row(TokenRow)) as cursor:
        await cursor.execute(LIST, [user])
        return await cursor.fetchall()


async def state(conn: Connection, token: UUID) -> tuple[bool, datetime | None]:
    """Whether it can still be used, and until when; None is for ever."""
    row = await (await conn.execute(STATE, [token])).fetchone()
    return (True, row[0]) if row else (False, None)


async def count(conn: Connection, user: UserId) -> int:
    row = await (await conn.execute(COUNT, [user])).fetchone()
    assert row is not None
    return int(row[0])


async def revoke(conn: Connection, token: UUID, user: UserId) -> bool:
    """End it, and whatever was made with it; False when there is no such token. The caller holds the user's row."""
    if (await conn.execute(REVOKE, [token, user])).rowcount != 1:
        return False
    await revoke_made_with(conn, token, user)
    return True


async def revoke_made_with(conn: Connection, credential: UUID, user: UserId) -> None:
    """End what was made with a session or token, and with that. The caller holds the user's row."""
    await conn.execute(REVOKE_MADE_WITH, {"credential": credential, "user": user})


async def revoke_made_in_sessions(conn: Connection, user: UserId, *, but: UUID | None = None) -> int:
    """End what was made in the user's sessions, before these are ended. The caller holds the user's row."""
    return (await conn.execute(REVOKE_MADE_IN_SESSIONS, {"user": user, "but": but})).rowcount


async def revoke_all(conn: Connection, user: UserId) -> int:
    return (await conn.execute(REVOKE_ALL, [user])).rowcount
