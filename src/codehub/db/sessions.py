"""Sessions of people in browsers. The table holds hashes: who reads it cannot log in with what they read.

A session lives until `expires_at`, and only while it is used at least once in `idle`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row

from codehub.db.pool import Connection
from codehub.db.rows import storable
from codehub.model.workspace import UserId

_AGENT_LENGTH = 400


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session that has not ended, for the one whose it is."""

    id: UUID
    created_at: datetime
    last_seen_at: datetime
    ends_at: datetime
    address: str | None
    user_agent: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who a session or token belongs to."""

    credential_id: UUID
    user_id: UserId
    username: str
    role: str
    scope: str
    stale: bool  # its last use was noted more than a minute ago


INSERT = """
INSERT INTO sessions (token_hash, user_id, expires_at, address, user_agent, provider_session)
VALUES (%(hash)s, %(user)s, now() + %(lifetime)s, %(address)s, %(agent)s, %(provider_session)s)
RETURNING id
"""

_ALIVE = "s.expires_at > now() AND s.last_seen_at > now() - %(idle)s"

FIND = f"""
SELECT s.token_hash, s.id, u.id, u.username, u.role::text, 'write', s.last_seen_at < now() - interval '1 minute'
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = ANY(%(hashes)s) AND {_ALIVE} AND u.disabled_at IS NULL
"""  # noqa: S608 - constants

TOUCH = "UPDATE sessions SET last_seen_at = now() WHERE id = %s AND last_seen_at < now() - interval '1 minute'"

LIST = f"""
SELECT s.id, s.created_at, s.last_seen_at, least(s.expires_at, s.last_seen_at + %(idle)s) AS ends_at,
       host(s.address) AS address, s.user_agent
FROM sessions s WHERE s.user_id = %(user)s AND {_ALIVE}
ORDER BY s.last_seen_at DESC, s.id
"""  # noqa: S608 - constants

ENDS_AT = f"""
SELECT least(s.expires_at, s.last_seen_at + %(idle)s) FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id = %(id)s AND {_ALIVE} AND u.disabled_at IS NULL
"""  # noqa: S608 - constants

SET_PROOF = "UPDATE sessions SET proof_hash = %s, proof_until = now() + %s WHERE id = %s"
HAS_PROOF = "SELECT EXISTS (SELECT FROM sessions WHERE id = %s AND proof_hash = %s AND proof_until > now())"
EXISTS = "SELECT EXISTS (SELECT FROM sessions WHERE id = %s AND user_id = %s AND expires_at > now())"
ANY = "SELECT EXISTS (SELECT FROM sessions)"
DELETE_ONE = "DELETE FROM sessions WHERE id = %s AND user_id = %s"
DELETE_ALL = "DELETE FROM sessions WHERE user_id = %s AND id IS DISTINCT FROM %s::uuid"

# One that does not know which of the provider's it came from may be the one that is meant, if its user is.
_AT_PROVIDER = """
u.issuer = %(issuer)s AND (%(subject)s::text IS NULL OR u.subject = %(subject)s)
AND (%(provider_session)s::text IS NULL OR s.provider_session = %(provider_session)s
     OR (s.provider_session IS NULL AND %(subject)s::text IS NOT NULL))
"""

USERS_AT_PROVIDER = f"""
SELECT DISTINCT u.id FROM sessions s JOIN users u ON u.id = s.user_id WHERE {_AT_PROVIDER} ORDER BY u.id
"""  # noqa: S608 - constants

DELETE_AT_PROVIDER = f"""
DELETE FROM sessions s USING users u WHERE u.id = s.user_id AND u.id = %(user)s AND {_AT_PROVIDER}
"""  # noqa: S608 - constants

PRUNE = """
DELETE FROM sessions WHERE id IN (
    SELECT s.id FROM sessions s WHERE s.expires_at <= now() OR s.last_seen_at <= now() - %(idle)s LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED)
"""


async def insert(
    conn: Connection,
    user: UserId,
    token_hash: bytes,
    lifetime: timedelta,
    *,
    address: str | None = None,
    user_agent: str | None = None,
    provider_session: str | None = None,
) -> UUID:
    agent = None if user_agent is None else storable(user_agent)[:_AGENT_LENGTH]
    values = {
        "hash": token_hash,
        "user": user,
        "lifetime": lifetime,
        "address": address,
        "agent": agent,
        "provider_session": provider_session,
    }
    row = await (await conn.execute(INSERT, values)).fetchone()
    assert row is not None
    identity: UUID = row[0]
    return identity


async def find(conn: Connection, asked: Sequence[tuple[bytes, timedelta]]) -> dict[tuple[bytes, timedelta], Holder]:
    """Whose they are, by hash and how long one may idle; without those that have ended, never were, or whose user may
    not log in."""
    found: dict[tuple[bytes, timedelta], Holder] = {}
    for idle in {idle for _, idle in asked}:  # one, except while processes with other settings share a database
        hashes = [token_hash for token_hash, its_idle in asked if its_idle == idle]
        rows = await (await conn.execute(FIND, {"hashes": hashes, "idle": idle})).fetchall()
        found |= {(token_hash, idle): Holder(*row) for token_hash, *row in rows}
    return found


async def touch(conn: Connection, session: UUID) -> None:
    """Note that it is in use, at most once a minute."""
    await conn.execute(TOUCH, [session])


async def of_user(conn: Connection, user: UserId, idle: timedelta) -> Sequence[SessionRow]:
    async with conn.cursor(row_factory=class_row(SessionRow)) as cursor:
        await cursor.execute(LIST, {"user": user, "idle": idle})
        return await cursor.fetchall()


async def ends_at(conn: Connection, session: UUID, idle: timedelta) -> datetime | None:
    """When it ends if it is not used again; None when it has ended."""
    row = await (await conn.execute(ENDS_AT, {"id": session, "idle": idle})).fetchone()
    return row[0] if row else None


async def exists(conn: Connection, session: UUID, user: UserId) -> bool:
    """Whether it was neither ended nor has it run out; one that idles is still there."""
    return await (await conn.execute(EXISTS, [session, user])).fetchone() == (True,)


async def set_proof(conn: Connection, session: UUID, proof_hash: bytes, lifetime: timedelta) -> None:
    """In place of the one before."""
    await conn.execute(SET_PROOF, [proof_hash, lifetime, session])


async def has_proof(conn: Connection, session: UUID, proof_hash: bytes) -> bool:
    return await (await conn.execute(HAS_PROOF, [session, proof_hash])).fetchone() == (True,)


async def is_any(conn: Connection) -> bool:
    """Whether there is a session at all, of anybody."""
    return await (await conn.execute(ANY)).fetchone() == (True,)


async def delete(conn: Connection, session: UUID, user: UserId) -> bool:
    return (await conn.execute(DELETE_ONE, [session, user])).rowcount == 1


async def delete_all(conn: Connection, user: UserId, *, but: UUID | None = None) -> int:
    return (await conn.execute(DELETE_ALL, [user, but])).rowcount


async def users_at_provider(
    conn: Connection, issuer: str, subject: str | None, provider_session: str | None
) -> Sequence[UserId]:
    """Whose sessions came from there: of this subject, of this session there, or both."""
    values = {"issuer": issuer, "subject": subject, "provider_session": provider_session}
    return [row[0] for row in await (await conn.execute(USERS_AT_PROVIDER, values)).fetchall()]


async def delete_at_provider(
    conn: Connection, user: UserId, issuer: str, subject: str | None, provider_session: str | None
) -> int:
    """Those of one user; how many."""
    values = {"user": user, "issuer": issuer, "subject": subject, "provider_session": provider_session}
    return (await conn.execute(DELETE_AT_PROVIDER, values)).rowcount


async def prune(conn: Connection, idle: timedelta, limit: int) -> int:
    """Forget up to `limit` that have ended; how many."""
    return (await conn.execute(PRUNE, {"idle": idle, "limit": limit})).rowcount
