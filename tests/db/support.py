"""What the database tests share: rows with defaults."""

from typing import Any, cast
from uuid import UUID, uuid4

from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Jsonb

from codehub.db import reads
from codehub.db.pool import Connection
from codehub.model.workspace import UserId, Workspace, WorkspaceId
from tests.support import eventually_async

OWNER = UserId(UUID(int=1))
STRANGER = UserId(UUID(int=2))


async def add_user(conn: Connection, user: UserId = OWNER) -> UserId:
    await conn.execute(
        "INSERT INTO users (id, username) VALUES (%s, %s) ON CONFLICT DO NOTHING", [user, f"user-{user.int}"]
    )
    return user


async def add_workspace(conn: Connection, **columns: Any) -> WorkspaceId:
    """One row with the columns that the test is about; written as the tables' owner, past the roles."""
    identity = WorkspaceId(columns.pop("id", None) or uuid4())
    row = {
        "id": identity,
        "owner_user_id": OWNER,
        "instance_backend": "process",
        "storage_backend": "directory",
        "home_store_key": f"ws-{identity}-home",
        "name": "a workspace",
        "image_ref": "ide",
        "standby_ttl_seconds": 600,
        "archive_ttl_seconds": 1800,
        **{name: Jsonb(value) if isinstance(value, dict) else value for name, value in columns.items()},
    }
    await add_user(conn, UserId(cast("UUID", row["owner_user_id"])))
    await conn.execute(
        SQL("INSERT INTO workspaces ({}) VALUES ({})").format(
            SQL(", ").join(Identifier(name) for name in row), SQL(", ").join(Placeholder(name) for name in row)
        ),
        row,
    )
    return identity


async def read(conn: Connection, identity: WorkspaceId) -> Workspace:
    (workspace,) = await reads.by_ids(conn, [identity])
    return workspace


async def change(conn: Connection, identity: WorkspaceId, **columns: Any) -> None:
    """Write columns as the tables' owner."""
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in columns.items()}
    assignments = SQL(", ").join(SQL("{} = {}").format(Identifier(name), Placeholder(name)) for name in values)
    await conn.execute(
        SQL("UPDATE workspaces SET {} WHERE id = {}").format(assignments, Placeholder("which")),
        {**values, "which": identity},
    )


async def is_waiting_for_lock(watcher: Connection, waiter: Connection) -> bool:
    """Whether `waiter`'s statement is blocked by somebody's lock."""
    row = await (
        await watcher.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [waiter.info.backend_pid])
    ).fetchone()
    return row == (True,)


async def until_it_waits(holder: Connection) -> None:
    """For something that this connection holds."""
    blocked = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"

    async def waits() -> bool:
        return await (await holder.execute(blocked)).fetchone() == (True,)

    await eventually_async(waits, "somebody waits")
