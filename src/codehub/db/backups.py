"""What a backup reads beside the dump, and what a restore does around it, as the owner of the tables.

Backing up holds one transaction open whose snapshot the dump uses too, so that counts, keys and dump are of one moment.
Restoring holds the leader's lock: no coordinator leads from the first look to the last statement. The transaction that
replaces everything asks first and last whether that lock is held on the very database that it is in: another server
behind the same name, or a session that was cut off meanwhile, leaves everything as it is.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier, Literal

from codehub.db import archives
from codehub.db.connecting import CONNECT_SECONDS, connect_error
from codehub.db.locks import AdvisoryLock
from codehub.db.migrations import MARK
from codehub.db.pool import Connection
from codehub.errors import StartError
from codehub.model.gc import KnownWorkspace
from codehub.model.workspace import ArchiveKey, WorkspaceId

_PAGE = 5000
_REVISION = re.compile(r"\d{4}")

# Every table that a version up to this one has made. Newer ones' are known by the comment that `migrate` gives them.
OURS = frozenset(
    {
        *("alembic_version", "schema_floor", "users", "sessions", "tokens", "visits", "audit_log"),
        *("workspaces", "workspace_history", "leadership", "gc_runs", "samples", "accepted_losses"),
    }
)
# And every routine and type, by the kind that `_BESIDE` gives it. Of sequences it has only its tables' own.
OURS_BESIDE = frozenset(
    {
        *("routine workspaces_touch()", "routine workspaces_notify()", "routine gc_runs_notify()"),
        *("type user_role", "type token_scope", "type audit_actor", "type workspace_state", "type workspace_operation"),
        *("type instance_backend", "type storage_backend"),
        # M1's
        *("type instance_backend_enum", "type storage_backend_enum", "type observed_status_enum"),
        *("type health_status_enum", "type desired_state_enum", "type operation_enum"),
    }
)

_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname
"""
# What holds rows or shows them, but for what an extension brought along.
_THERE = """
SELECT relname, obj_description(oid, 'pg_class') IS NOT DISTINCT FROM %s FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid
                      AND deptype = 'e')
ORDER BY relname
"""
# What a restore would drop, too: routines, types and sequences, but for an extension's and what belongs to a table.
_BESIDE = """
SELECT format('routine %%s(%%s)', proname, pg_get_function_identity_arguments(oid)),
       obj_description(oid, 'pg_proc') IS NOT DISTINCT FROM %(mark)s
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid
                      AND deptype = 'e')
UNION ALL
SELECT format('type %%s', typname), obj_description(oid, 'pg_type') IS NOT DISTINCT FROM %(mark)s
FROM pg_type WHERE typnamespace = current_schema()::regnamespace AND typtype IN ('e', 'd')
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_type'::regclass AND objid = pg_type.oid
                      AND deptype = 'e')
UNION ALL
SELECT format('sequence %%s', relname), obj_description(oid, 'pg_class') IS NOT DISTINCT FROM %(mark)s
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid
                      AND deptype IN ('e', 'i', 'a'))
ORDER BY 1
"""
_ADOPT = """
UPDATE workspaces SET archive_key = %s
WHERE id = %s AND archive_key IS NOT DISTINCT FROM %s AND deleted_at IS NULL AND operation = 'NONE'
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
    strange: Sequence[str]  # what is there and not CodeHub's
    users: int = 0
    workspaces: int = 0
    epoch: int = 0


@asynccontextmanager
async def snapshot(database_url: str) -> AsyncIterator[Snapshot]:
    """For as long as the block lasts, `pg_dump --snapshot` sees exactly what is told here."""
    async with _session(database_url) as conn, conn.transaction():
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
    async with _session(database_url) as conn:
        if not (await _row(conn, SQL("SELECT pg_try_advisory_lock({})").format(int(AdvisoryLock.LEADER))))[0]:
            raise StartError("A coordinator leads on this database.", "Stop every CodeHub that uses it, and try again.")
        namespace, version, pid = await _row(
            conn, SQL("SELECT current_schema(), current_setting('server_version_num')::int, pg_backend_pid()")
        )
        if namespace is None:
            raise StartError("The database has no schema to restore into.", "Create the schema public in it.")
        there = dict(await (await conn.execute(_THERE, [MARK])).fetchall())
        strange = [*await _strange(conn, there), *await _strange_beside(conn)]
        found = Contents(version, namespace, pid, strange)
        if not found.strange:
            users, workspaces = [
                await _count(conn, table) if table in there else 0 for table in ("users", "workspaces")
            ]
            epoch = (await _row(conn, SQL("SELECT max(epoch) FROM leadership")))[0] if "leadership" in there else None
            found = replace(found, users=users, workspaces=workspaces, epoch=epoch or 0)
        yield found


async def _strange(conn: Connection, there: Mapping[str, bool]) -> Sequence[str]:
    """Tables of the same names may be another program's that uses Alembic too: its revisions are not like ours."""
    strange = [name for name, is_marked in there.items() if name not in OURS and not is_marked]
    if strange or not there:
        return strange
    if not {"alembic_version", "users", "workspaces"} <= set(there):
        return list(there)
    (version,) = await _row(conn, SQL("SELECT max(version_num) FROM alembic_version"))
    return [] if _REVISION.fullmatch(version or "") else list(there)


async def _strange_beside(conn: Connection) -> Sequence[str]:
    there = await (await conn.execute(_BESIDE, {"mark": MARK})).fetchall()
    return [name for name, is_marked in there if name not in OURS_BESIDE and not is_marked]


async def known(database_url: str) -> Sequence[KnownWorkspace]:
    """Every workspace, deleted ones included."""
    async with _session(database_url) as conn:
        return await _known(conn)


async def adopt(
    database_url: str, keys: Mapping[WorkspaceId, tuple[ArchiveKey | None, ArchiveKey]]
) -> Sequence[WorkspaceId]:
    """Let these workspaces have another archive than the one their row names; which were written."""
    written = []
    async with _session(database_url) as conn, conn.transaction():
        for identity, (old, new) in keys.items():
            done = await conn.execute(_ADOPT, [new, identity, old])
            written += [identity] * done.rowcount
    return written


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


async def _count(conn: Connection, table: str) -> int:
    return int((await _row(conn, SQL("SELECT count(*) FROM {}").format(Identifier(table))))[0])


async def _row(conn: Connection, query: SQL | psycopg.sql.Composed) -> TupleRow:
    row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return row


@asynccontextmanager
async def _session(database_url: str) -> AsyncIterator[Connection]:
    try:
        async with asyncio.timeout(CONNECT_SECONDS * 2):
            conn: Connection = await psycopg.AsyncConnection.connect(
                database_url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="codehub_backup"
            )
            # The dump may take long, and this session does nothing meanwhile.
            await conn.execute("SET idle_in_transaction_session_timeout = 0")
            await conn.execute("SET idle_session_timeout = 0")
            await conn.execute("SET timezone = 'UTC'")
    except TimeoutError:
        raise StartError("PostgreSQL did not answer in time.", "Check the network and the firewall.") from None
    except psycopg.Error as error:
        raise connect_error(database_url, error) from None
    async with conn:
        yield conn


# Raises unless the session that looked still holds the leader's lock, on this server and in this database.
_GUARD = """
DO $guard$ BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE datname = current_database() AND locktype = 'advisory' AND granted AND pid = {pid}
              AND (classid::bigint << 32) | objid::bigint = {lock}
    ) THEN
        RAISE EXCEPTION 'this is not the database that was looked at, or the leader''s lock in it was lost';
    END IF;
END $guard$;
"""

# Everything in the schema, whatever version made it; what an extension brought along is not ours. Not CASCADE: what is
# elsewhere and relies on a table of ours would go with it.
_CLEAR = """
SET lock_timeout = '30s';
DO $clear$
DECLARE
    thing record;
BEGIN
    FOR thing IN
        SELECT format('DROP %s %s', kind, string_agg(format('%I.%I', relnamespace::regnamespace::text, relname), ', '))
               AS statement
        FROM pg_class, LATERAL (SELECT CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                                                    WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind) AS of_kind
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
              AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass
                              AND objid = pg_class.oid AND deptype IN ('e', 'i', 'a'))
        GROUP BY kind
        ORDER BY kind = 'SEQUENCE', kind = 'TABLE', kind = 'MATERIALIZED VIEW'
    LOOP
        EXECUTE thing.statement;
    END LOOP;
    FOR thing IN
        SELECT format('DROP ROUTINE %s', oid::regprocedure) AS statement FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace
              AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass
                              AND objid = pg_proc.oid AND deptype = 'e')
    LOOP
        EXECUTE thing.statement;
    END LOOP;
    FOR thing IN
        SELECT format('DROP TYPE %s', oid::regtype) AS statement FROM pg_type
        WHERE typnamespace = current_schema()::regnamespace AND typtype IN ('e', 'd')
              AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_type'::regclass
                              AND objid = pg_type.oid AND deptype = 'e')
    LOOP
        EXECUTE thing.statement;
    END LOOP;
END $clear$;
"""

# What must be different in a database that is older than the world around it:
# - an old leader may still believe in any epoch up to the newest there ever was, so the new ones begin far above;
# - whoever has logged out, or was logged out, since the backup stays so;
# - what was in the trash may have been taken out of it since: it is kept for a whole retention again;
# - an unfinished archive of this op_id may be complete in the store, with an older state of the home in it;
# - nobody was idle while there was no CodeHub;
# - what an administrator said of missing homes was said of another world. Older schemas have no place for it.
EPOCHS_PER_RESTORE = 1 << 32
_SETTLE = """
UPDATE {schema}.leadership SET epoch = greatest(epoch, {epoch}) + {step}, holder = 'a restore', since = now();
DELETE FROM {schema}.sessions;
UPDATE {schema}.workspaces SET deleted_at = now() WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
UPDATE {schema}.workspaces SET op_id = gen_random_uuid()
WHERE operation = 'ARCHIVING' AND archive_key IS DISTINCT FROM id || '/' || op_id || '/home.tar.zst';
UPDATE {schema}.workspaces SET last_access_at = now() WHERE desired_state = 'RUNNING' AND deleted_at IS NULL;
DO $losses$ BEGIN
    DELETE FROM {schema}.accepted_losses;
EXCEPTION WHEN undefined_table THEN NULL;
END $losses$;
"""


def script_before(before: Contents) -> str:
    """Statements that come before the dump's, in the same transaction."""
    return f"BEGIN;\n{_guard(before)}{_CLEAR}"


def script_after(namespace: str, counts: Mapping[str, int], before: Contents) -> str:
    """Statements that come after the dump's: they refuse what is not whole, and settle what is. No COMMIT."""
    checks = SQL("").join(
        SQL(
            "DO $count$ BEGIN IF (SELECT count(*) FROM {table}) <> {count} THEN "
            "RAISE EXCEPTION 'a table has another number of rows than the backup says'; END IF; END $count$;\n"
        ).format(table=Identifier(namespace, table), count=Literal(count))
        for table, count in sorted(counts.items())
    )
    settle = SQL(_SETTLE).format(
        schema=Identifier(namespace), epoch=Literal(before.epoch), step=Literal(EPOCHS_PER_RESTORE)
    )
    return f"SET lock_timeout = '30s';\n{checks.as_string()}{settle.as_string()}{_guard(before)}"


def _guard(before: Contents) -> str:
    return SQL(_GUARD).format(pid=Literal(before.pid), lock=Literal(int(AdvisoryLock.LEADER))).as_string()
