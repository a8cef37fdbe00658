"""What a backup reads beside the dump, and a restore before anything else, as the owner of the tables.

Backing up holds one transaction open whose snapshot the dump uses too, so that counts, keys and dump are of one moment.
Restoring holds the leader's lock: no coordinator leads from the first look to the last statement. What it looks for is
in foreign.py, what it does in replacing.py.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier

from codehub.db import archive_operations, archives, foreign
from codehub.db.connecting import session
from codehub.db.locks import AdvisoryLock
from codehub.db.pool import Connection
from codehub.errors import StartError
from codehub.model.gc import KnownWorkspace, Memory

_PAGE = 5000

_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of the database; `name` lets other sessions see it while this one is open."""

    name: str
    at: datetime
    server_version: int  # as in 180006
    namespace: str
    schema_version: str
    schema_floor: str | None
    epoch: int
    counts: Mapping[str, int]  # rows of each table
    workspaces: Sequence[KnownWorkspace]


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a database before a restore, and the session that holds the leader's lock meanwhile."""

    server_version: int
    namespace: str
    pid: int
    foreign: Sequence[str]  # what is there and not CodeHub's
    users: int = 0
    workspaces: int = 0
    epoch: int = 0
    store_tokens: Sequence[UUID] = ()  # the markers in the archive store that are its own


@asynccontextmanager
async def snapshot(database_url: str) -> AsyncIterator[Snapshot]:
    """For as long as the block lasts, `pg_dump --snapshot` sees exactly what is told here."""
    async with session(database_url) as conn, conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            yield await _look(conn)
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            raise StartError(
                "The database has no schema that this CodeHub can back up.",
                "Let the CodeHub that wrote it do so, or run `codehub migrate` first.",
            ) from None


@asynccontextmanager
async def nobody_leading(database_url: str) -> AsyncIterator[Contents]:
    """What is there, while no coordinator leads nor can begin to. StartError when one leads."""
    async with session(database_url) as conn:
        if not (await _row(conn, SQL("SELECT pg_try_advisory_lock({})").format(int(AdvisoryLock.LEADER))))[0]:
            raise StartError("A coordinator leads on this database.", "Stop every CodeHub that uses it, and try again.")
        namespace, version, pid = await _row(
            conn, SQL("SELECT current_schema(), current_setting('server_version_num')::int, pg_backend_pid()")
        )
        if namespace is None:
            raise StartError("The database has no schema to restore into.", "Create the schema public in it.")
        there = await foreign.relations(conn)
        found = Contents(version, namespace, pid, await foreign.names(conn, there))
        if not found.foreign:
            users, workspaces = [
                await _count(conn, table) if table in there else 0 for table in ("users", "workspaces")
            ]
            epoch = (await _row(conn, SQL("SELECT max(epoch) FROM leadership")))[0] if "leadership" in there else None
            tokens = await _store_tokens(conn) if "leadership" in there else ()
            found = replace(found, users=users, workspaces=workspaces, epoch=epoch or 0, store_tokens=tokens)
        yield found


async def known(database_url: str) -> Sequence[KnownWorkspace]:
    """Every workspace, deleted ones included."""
    async with session(database_url) as conn:
        return await _known(conn)


async def remembered(database_url: str) -> Memory:
    """Which archives it remembers having begun."""
    async with session(database_url) as conn:
        return Memory(await archive_operations.all_of_them(conn), await archive_operations.since(conn))


async def _look(conn: Connection) -> Snapshot:
    name, at, version, namespace = await _row(
        conn,
        SQL("SELECT pg_export_snapshot(), now(), current_setting('server_version_num')::int, current_schema()"),
    )
    tables = [table for (table,) in await (await conn.execute(_TABLES)).fetchall()]
    counts = {table: await _count(conn, table) for table in tables}
    (schema_version,) = await _row(conn, SQL("SELECT max(version_num) FROM alembic_version"))
    # The schemas of before have none: code that does not know them cannot use them.
    floor = (await _row(conn, SQL("SELECT version FROM schema_floor")))[0] if "schema_floor" in counts else None
    (epoch,) = await _row(conn, SQL("SELECT epoch FROM leadership"))
    return Snapshot(name, at, version, namespace, schema_version, floor, epoch, counts, await _known(conn))


async def _known(conn: Connection) -> Sequence[KnownWorkspace]:
    found: list[KnownWorkspace] = []
    while page := await archives.known(conn, found[-1].id if found else None, _PAGE):
        found += page
    return found


async def _store_tokens(conn: Connection) -> Sequence[UUID]:
    """None in older schemas."""
    row = await _row(conn, SQL("SELECT to_jsonb(leadership) -> 'store_tokens' FROM leadership"))
    return [UUID(token) for token in row[0] or ()]


async def _count(conn: Connection, table: str) -> int:
    return int((await _row(conn, SQL("SELECT count(*) FROM {}").format(Identifier(table))))[0])


async def _row(conn: Connection, query: SQL | psycopg.sql.Composed) -> TupleRow:
    row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return row
