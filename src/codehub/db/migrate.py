"""Bringing the schema up to date.

All pending revisions run in one transaction, under an advisory lock: any number of processes may call `upgrade` at
once, and one that fails or dies leaves the database as it was. A database that a newer CodeHub wrote is left as it is:
one that was only expanded since is used, any other refused (ADR 11). CodeHub goes on working meanwhile: whoever needs a
table that is to be changed waits for two seconds at most, since a migration that cannot have it lets go of everything
and tries again. Whatever goes wrong is a `StartError` of one line that never holds the password.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from codehub.db.belonging import no_extension_has, nothing_has
from codehub.db.connecting import connect
from codehub.db.locks import AdvisoryLock
from codehub.db.migrations import BASELINE, MARK
from codehub.db.poolers import require_sessions
from codehub.errors import StartError

# Alembic and SQLAlchemy are half a second of a start, and needed by those that migrate alone: see `upgrade`.
if TYPE_CHECKING:
    import sqlalchemy
    from alembic.runtime.migration import MigrationContext, RevisionStep
    from alembic.script import ScriptDirectory

log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"
_OTHERS_SECONDS = 300  # how long to wait for another process that is migrating
_ASK_AGAIN_SECONDS = 0.2
_READ_SECONDS = 30  # how long a look may wait for somebody who changes the schema; nobody waits behind it
_LOCK_SECONDS = 2  # how long a change may wait for a table: everybody who comes later waits behind it
_LOCK_PAUSE_SECONDS = 1.0  # in which those who had to wait get their turn
LOCKED_SECONDS = 120  # for how long it is tried again
_STATEMENT_SECONDS = 600

NEWEST = "head"

# Alembic's `op` is one global of the process: threads that migrate different databases must take turns.
_one_at_a_time = threading.Lock()


def upgrade(
    database_url: str,
    target: str = NEWEST,
    *,
    stop: threading.Event | None = None,
    locked_seconds: float = LOCKED_SECONDS,
) -> None:
    """Run every pending revision up to `target`; does nothing on a database that is up to date, or newer and fit.

    `stop` ends the wait for others (who migrate, or use the tables), and nothing is begun once it is set.
    """
    stop = stop or threading.Event()
    with _connection(database_url) as raw:
        if target == NEWEST and _stored_version(raw) == newest_version():
            return
        script = _script()
        wanted = _revision(script, target)
        if _is_at(raw, wanted, script):
            return
        wait_for_others(raw, stop)
        if not stop.is_set() and not _is_at(raw, wanted, script):  # another process may have migrated meanwhile
            log.info("migrating the database from schema version %s to %s", _stored_version(raw) or "none", wanted)
            _run_when_free(raw, script, wanted, stop, locked_seconds)


def surround(database_url: str) -> None:
    """Make what a schema needs around it and no dump of it holds: the server's roles, and who may enter the database.

    Nothing in the database itself is looked at or changed: a restore is about to replace it, whatever it is.
    """
    script = _script()
    oldest_first = reversed(list(script.walk_revisions()))
    with _connection(database_url) as raw, raw.transaction():
        for statement in (each for one in oldest_first for each in getattr(one.module, "AROUND", ())):
            raw.execute(statement)


def require_newest(database_url: str) -> None:
    """Raise StartError unless the database has this version's schema or one that is fit for it; nothing is changed."""
    script = _script()
    wanted = _revision(script, NEWEST)
    with _connection(database_url) as raw:
        found, is_at = _stored_version(raw), _is_at(raw, wanted, script)
    if not is_at:
        raise StartError(
            f"The database has schema version {found or 'none'}, not {wanted}.", "Run `codehub migrate` first."
        )


def schema_version(database_url: str) -> str | None:
    """The revision that the database is at; None before the first migration."""
    with _connection(database_url) as raw:
        return _stored_version(raw)


def newest_version() -> str:
    """The revision that this code needs: their files are named after them."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py")).partition("_")[0]


def is_usable(version: str, floor: str | None) -> bool:
    """Whether this code can use a database at that revision: it migrates it forward, or it is fit as it is."""
    known = [revision.revision for revision in _script().walk_revisions()]
    return version in known or floor in known


def _script() -> "ScriptDirectory":
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    return ScriptDirectory(str(MIGRATIONS))


def _revision(script: "ScriptDirectory", name: str) -> str:
    revision = script.get_revision(name)
    assert revision is not None
    return revision.revision


def floor_of(script: "ScriptDirectory", wanted: str) -> str:
    """The oldest version whose code runs on the schema `wanted`."""
    revisions = script.iterate_revisions(wanted, "base")
    return max(getattr(revision.module, "contract_after", BASELINE) for revision in revisions)


def _is_at(raw: psycopg.Connection, wanted: str, script: "ScriptDirectory") -> bool:
    found = _stored_version(raw)
    known = [revision.revision for revision in script.walk_revisions()]
    if found is not None and found not in known:
        if _stored_floor(raw) in known:
            log.info("the database has schema version %s, which is fit for this CodeHub (%s)", found, known[0])
            return True
        raise StartError(
            f"The database has schema version {found}, newer than this CodeHub ({known[0]}).",
            "Start the CodeHub that wrote it or a newer one, or restore a backup made before the upgrade.",
        )
    return found is not None and known.index(found) <= known.index(wanted)


def _stored_version(raw: psycopg.Connection) -> str | None:
    if raw.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
        return None
    rows = raw.execute("SELECT version_num FROM alembic_version ORDER BY version_num").fetchall()
    return "+".join(version for (version,) in rows) or None


def _stored_floor(raw: psycopg.Connection) -> str | None:
    if raw.execute("SELECT to_regclass('schema_floor')").fetchone() == (None,):
        return None
    row = raw.execute("SELECT version FROM schema_floor").fetchone()
    return str(row[0]) if row is not None else None


@contextmanager
def _connection(database_url: str) -> Iterator[psycopg.Connection]:
    raw = connect(database_url, as_program="codehub migrate")
    try:
        require_sessions(raw, database_url)  # before anything is set, which would stay with somebody else's
        # timezone: M1's timestamps have none and are read as UTC.
        raw.execute("SET timezone = 'UTC'")
        raw.execute(sql.SQL("SET lock_timeout = {}").format(f"{_READ_SECONDS}s"))
        raw.execute(sql.SQL("SET statement_timeout = {}").format(f"{_STATEMENT_SECONDS}s"))
        yield raw
    except psycopg.Error as error:
        raise _migration_error(error) from error
    finally:
        raw.close()


def wait_for_others(raw: psycopg.Connection, stop: threading.Event | None = None) -> None:
    """Take the migration lock; it goes with the session, so it cannot outlive this process."""
    stop = stop or threading.Event()
    until = time.monotonic() + _OTHERS_SECONDS
    while raw.execute("SELECT pg_try_advisory_lock(%s)", [int(AdvisoryLock.MIGRATION)]).fetchone() != (True,):
        if time.monotonic() > until:
            raise StartError(
                f"Another process has been migrating the database for {_OTHERS_SECONDS} seconds.",
                "Wait for it to finish, or end it, and start again.",
            )
        if stop.wait(_ASK_AGAIN_SECONDS):
            return


def _run_when_free(
    raw: psycopg.Connection, script: "ScriptDirectory", wanted: str, stop: threading.Event, locked_seconds: float
) -> None:
    """Again and again while somebody uses the tables; each attempt is all of it or nothing."""
    import sqlalchemy  # noqa: PLC0415 - see above

    raw.execute(sql.SQL("SET lock_timeout = {}").format(f"{_LOCK_SECONDS}s"))
    raw.autocommit = False
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: raw, poolclass=sqlalchemy.pool.StaticPool
    )
    until = time.monotonic() + locked_seconds
    try:
        while not stop.is_set():
            try:
                with _one_at_a_time:
                    _run(engine, script, wanted)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                raw.rollback()
                if time.monotonic() > until:
                    raise _locked(raw, locked_seconds) from None
                log.info("the tables are in use; the migration is tried again")
                stop.wait(_LOCK_PAUSE_SECONDS)
            else:
                return
    finally:
        engine.dispose()


def _run(engine: "sqlalchemy.Engine", script: "ScriptDirectory", wanted: str) -> None:
    import sqlalchemy  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415 - see above
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415 - see above
    from alembic.runtime.migration import MigrationStep  # noqa: PLC0415 - see above

    def pending(found: tuple[str, ...], _context: "MigrationContext") -> "list[RevisionStep]":
        newest_first = script.iterate_revisions(wanted, found)
        return [MigrationStep.upgrade_from_script(script.revision_map, revision) for revision in newest_first][::-1]

    try:
        with engine.connect() as connection, EnvironmentContext(Config(), script, fn=pending) as environment:
            environment.configure(connection=connection, transaction_per_migration=False)
            with environment.begin_transaction():
                before = _things(connection)
                environment.run_migrations()
                for thing in _things(connection) - before:
                    connection.exec_driver_sql(f"COMMENT ON {thing} IS '{MARK}'")
                if wanted > BASELINE:
                    floor = {"version": floor_of(script, wanted)}
                    connection.execute(sqlalchemy.text("UPDATE schema_floor SET version = :version"), floor)
    except sqlalchemy.exc.DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from None
        raise


def _things(connection: "sqlalchemy.Connection") -> set[str]:
    """Everything in the schema that can be marked as ours, as SQL calls it."""
    return {str(thing) for (thing,) in connection.exec_driver_sql(THINGS)}


THINGS = f"""
SELECT concat_ws(' ', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                                   ELSE 'TABLE' END, oid::regclass)
FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'S') AND relnamespace = current_schema()::regnamespace
      AND CASE relkind WHEN 'S' THEN {nothing_has("pg_class")} ELSE {no_extension_has("pg_class")} END
UNION ALL
SELECT concat_ws(' ', 'ROUTINE', oid::regprocedure)
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
      AND {no_extension_has("pg_proc")}
UNION ALL
SELECT concat_ws(' ', 'TYPE', oid::regtype)
FROM pg_type WHERE typtype IN ('e', 'd') AND typnamespace = current_schema()::regnamespace
      AND {no_extension_has("pg_type")}
"""  # noqa: S608 - constants


def _locked(raw: psycopg.Connection, seconds: float) -> StartError:
    """The oldest transaction is the likeliest reason: a backup, or somebody's session."""
    row = raw.execute(_OLDEST).fetchone()
    whose = f" The oldest transaction is that of {row[0] or 'a program'} (pid {row[1]}, {row[2]} s)." if row else ""
    return StartError(
        f"The database could not be migrated within {seconds:.0f} seconds, because its tables are in use.{whose}",
        "Wait for it to end, or end it, and start again; nothing was changed.",
    )


_OLDEST = """
SELECT application_name, pid, extract(epoch FROM now() - xact_start)::int FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1
"""


def _migration_error(error: psycopg.Error) -> StartError:
    if isinstance(error, psycopg.errors.RaiseException):  # a revision's own sentence and next step
        return StartError(error.diag.message_primary or "", error.diag.message_hint or "")
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return StartError(
            "The database cannot be looked at, because something else changes its schema or restores it.",
            "Wait for it to end, and start again; nothing was changed.",
        )
    log.error("a migration failed", exc_info=error)
    what = error.diag.message_primary or type(error).__name__
    detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    return StartError(f"The database could not be migrated: {what}{detail}.", "Nothing was changed.")
