"""What the database tests share: databases of their own, rows with defaults, and waiting for a condition."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Jsonb

from codehub.db import reads
from codehub.db.pool import Connection
from codehub.model.workspace import UserId, Workspace, WorkspaceId

OWNER = UserId(UUID(int=1))
STRANGER = UserId(UUID(int=2))


@dataclass
class Databases:
    """Makes databases on one server and removes them at the end."""

    server_url: str
    prefix: str = field(default_factory=lambda: f"codehub_test_{uuid4().hex[:8]}")
    _numbers: Iterator[int] = field(default_factory=count)

    def create(self, template: str | None = None) -> str:
        """A new database, empty or a copy of `template` (its URL, to which nobody may be connected)."""
        name = f"{self.prefix}_{next(self._numbers)}"
        source = psycopg.conninfo.conninfo_to_dict(template)["dbname"] if template else "template0"
        with self._server() as server:
            server.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(str(source))))
        return make_conninfo(self.server_url, dbname=name)

    def drop(self, url: str) -> None:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with self._server() as server:
            server.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(str(name))))

    @contextmanager
    def one(self, template: str | None = None) -> Iterator[str]:
        url = self.create(template)
        try:
            yield url
        finally:
            self.drop(url)

    @contextmanager
    def _server(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.server_url, autocommit=True) as server:
            yield server


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


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 20) -> None:
    """Poll until it holds; the time limit is for broken code, not for slow machines."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - the state of another process has no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


async def is_waiting_for_lock(watcher: Connection, waiter: Connection) -> bool:
    """Whether `waiter`'s statement is blocked by somebody's lock."""
    row = await (
        await watcher.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [waiter.info.backend_pid])
    ).fetchone()
    return row == (True,)
