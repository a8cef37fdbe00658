"""Users: reading them and writing them. The table's rules (unique names, one per identity) are PostgreSQL's."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row
from psycopg.sql import SQL, Composed

from codehub.db.listing import containing
from codehub.db.pool import Connection
from codehub.model.workspace import UserId


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user."""

    id: UserId
    username: str
    password_hash: str | None
    role: str
    disabled_at: datetime | None
    created_at: datetime
    issuer: str | None
    max_running: int | None  # limits of this user's own; None is everybody's
    max_workspaces: int | None


_COLUMNS = SQL("id, username, password_hash, role::text, disabled_at, created_at, issuer, max_running, max_workspaces")

BY_NAME = SQL("SELECT {} FROM users WHERE lower(username) = lower(%s) AND deleted_at IS NULL").format(_COLUMNS)
BY_ID = SQL("SELECT {} FROM users WHERE id = %s AND deleted_at IS NULL").format(_COLUMNS)
# Conflicts with every change of the row, and not with others who only log in.
BY_ID_SHARED = SQL("{} FOR SHARE").format(BY_ID)
BY_ID_LOCKED = SQL("{} FOR NO KEY UPDATE").format(BY_ID)
BY_IDENTITY = SQL("SELECT {} FROM users WHERE issuer = %s AND subject = %s").format(_COLUMNS)

PAGE = SQL("""
SELECT {} FROM users
WHERE deleted_at IS NULL AND (created_at, id) > (coalesce(%(at)s, '-infinity'::timestamptz), %(id)s::uuid)
    AND (%(text)s::text IS NULL OR username ILIKE %(text)s)
ORDER BY created_at, id LIMIT %(limit)s
""").format(_COLUMNS)

INSERT = SQL("""
INSERT INTO users (id, username, password_hash, role, issuer, subject)
VALUES (gen_random_uuid(), %(username)s, %(hash)s, %(role)s, %(issuer)s, %(subject)s)
ON CONFLICT DO NOTHING
RETURNING {}
""").format(_COLUMNS)

SET_PASSWORD = "UPDATE users SET password_hash = %s WHERE id = %s"  # noqa: S105 - SQL
SET_ROLE = "UPDATE users SET role = %s WHERE id = %s"
SET_DISABLED = "UPDATE users SET disabled_at = CASE WHEN %s THEN coalesce(disabled_at, now()) END WHERE id = %s"

# The name is free again. Nobody can log in as this one: no password, no identity, and disabled.
DELETE = """
UPDATE users SET deleted_at = now(), disabled_at = coalesce(disabled_at, now()), password_hash = NULL, issuer = NULL,
    subject = NULL, username = 'deleted-' || id, role = 'user', max_running = NULL, max_workspaces = NULL
WHERE id = %s
"""

SET_LIMITS = "UPDATE users SET max_running = %s, max_workspaces = %s WHERE id = %s"

# As far as the audit log reaches back: idx_audit_log_actor.
LAST_LOGINS = """
SELECT id, (SELECT max(at) FROM audit_log WHERE actor_user_id = users.id AND action = 'session.login')
FROM users WHERE id = ANY(%s)
"""

# In one order, so that two administrators who demote each other wait instead of deadlocking.
ADMINISTRATORS = """
SELECT id FROM users WHERE role = 'admin' AND disabled_at IS NULL AND (password_hash IS NOT NULL OR issuer = %s)
ORDER BY id FOR NO KEY UPDATE
"""

FIRST_ADMINISTRATOR = SQL("""
SELECT {} FROM users WHERE role = 'admin' AND disabled_at IS NULL AND password_hash IS NOT NULL
ORDER BY created_at, id LIMIT 1
""").format(_COLUMNS)

HOLD_ALL = "LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"
NAME_BY_HASH = "SELECT username FROM users WHERE password_hash = %s"
ANY_ADMINISTRATOR = "SELECT EXISTS (SELECT FROM users WHERE role = 'admin')"
NAMES_LIKE = "SELECT lower(username) FROM users WHERE lower(username) LIKE %s"

# One that is at rest steps down; others do when they are. Rows in the order of their ids, like every bulk write.
STEP_DOWN = """
WITH locked AS MATERIALIZED (
    SELECT w.id FROM workspaces w JOIN users u ON u.id = w.owner_user_id
    WHERE u.disabled_at IS NOT NULL AND w.deleted_at IS NULL AND w.desired_state = 'RUNNING'
      AND w.operation = 'NONE' AND w.phase <> 'ERROR'
    ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE workspaces w SET desired_state = CASE WHEN w.phase = 'ARCHIVED' THEN w.phase ELSE 'STANDBY' END,
    asked_by = 'the account is disabled'
FROM locked WHERE w.id = locked.id
"""


async def by_name(conn: Connection, username: str) -> UserRow | None:
    """Names are ASCII. Others are nobody's, also where PostgreSQL's lower() would make a name of them."""
    return await _one(conn, BY_NAME, username) if username.isascii() and "\0" not in username else None


async def by_id(conn: Connection, user: UUID) -> UserRow | None:
    return await _one(conn, BY_ID, user)


async def by_id_shared(conn: Connection, user: UUID) -> UserRow | None:
    """… as it stays until this transaction ends."""
    return await _one(conn, BY_ID_SHARED, user)


async def by_id_locked(conn: Connection, user: UUID) -> UserRow | None:
    """… for changing it."""
    return await _one(conn, BY_ID_LOCKED, user)


async def by_identity(conn: Connection, issuer: str, subject: str) -> UserRow | None:
    return await _one(conn, BY_IDENTITY, issuer, subject)


async def page(conn: Connection, text: str, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[UserRow]:
    """Users with this in their names, in the order in which they were made, after the given place."""
    at, identity = after or (None, UUID(int=0))
    pattern = containing(text) if text else None
    async with conn.cursor(row_factory=class_row(UserRow)) as cursor:
        await cursor.execute(PAGE, {"at": at, "id": identity, "text": pattern, "limit": limit})
        return await cursor.fetchall()


async def last_logins(conn: Connection, users: Collection[UUID]) -> Mapping[UUID, datetime | None]:
    """When each logged in last, with a password or at a provider."""
    return dict(await (await conn.execute(LAST_LOGINS, [list(users)])).fetchall())


async def delete(conn: Connection, user: UUID) -> None:
    """The row stays, for what belongs to it, and names nobody any more."""
    await conn.execute(DELETE, [user])


async def set_limits(conn: Connection, user: UUID, max_running: int | None, max_workspaces: int | None) -> None:
    await conn.execute(SET_LIMITS, [max_running, max_workspaces, user])


async def insert(
    conn: Connection,
    username: str,
    role: str,
    *,
    password_hash: str | None = None,
    issuer: str | None = None,
    subject: str | None = None,
) -> UserRow | None:
    """A new user; None when the name or the identity is taken."""
    values = {"username": username, "hash": password_hash, "role": role, "issuer": issuer, "subject": subject}
    async with conn.cursor(row_factory=class_row(UserRow)) as cursor:
        await cursor.execute(INSERT, values)
        return await cursor.fetchone()


async def set_password(conn: Connection, user: UUID, password_hash: str) -> None:
    await conn.execute(SET_PASSWORD, [password_hash, user])


async def set_role(conn: Connection, user: UUID, role: str) -> None:
    await conn.execute(SET_ROLE, [role, user])


async def set_disabled(conn: Connection, user: UUID, *, disabled: bool) -> None:
    await conn.execute(SET_DISABLED, [disabled, user])


async def administrators(conn: Connection, issuer: str | None) -> Sequence[UUID]:
    """Those who can log in, with a password or at this OpenID provider; held until this transaction ends."""
    return [row[0] for row in await (await conn.execute(ADMINISTRATORS, [issuer])).fetchall()]


async def first_administrator(conn: Connection) -> UserRow | None:
    """The one who was made first, of those who can log in with a password."""
    return await _one(conn, FIRST_ADMINISTRATOR)


async def hold_all(conn: Connection) -> None:
    """Let nobody add or change a user until this transaction ends."""
    await conn.execute(HOLD_ALL)


async def has_administrator(conn: Connection) -> bool:
    return await (await conn.execute(ANY_ADMINISTRATOR)).fetchone() == (True,)


async def name_by_hash(conn: Connection, password_hash: str) -> str | None:
    """Who has this very hash: salted, so nobody else."""
    row = await (await conn.execute(NAME_BY_HASH, [password_hash])).fetchone()
    return None if row is None else str(row[0])


async def names_like(conn: Connection, beginning: str) -> Sequence[str]:
    """The names that begin so, in lower case; the beginning is plain letters."""
    return [row[0] for row in await (await conn.execute(NAMES_LIKE, [f"{beginning.lower()}%"])).fetchall()]


async def step_down_disabled(conn: Connection) -> int:
    """Let what disabled users run step down, where it is at rest. Rows changed."""
    return (await conn.execute(STEP_DOWN)).rowcount


async def _one(conn: Connection, statement: Composed, *values: object) -> UserRow | None:
    async with conn.cursor(row_factory=class_row(UserRow)) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone()
