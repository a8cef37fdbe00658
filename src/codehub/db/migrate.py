"""Bringing the schema up to date.

All pending revisions run in one transaction, under an advisory lock: any number of processes may call `upgrade` at
once, and one that fails or dies leaves the database as it was. A database that a newer CodeHub wrote is left as it is:
one that was only expanded since is used, any other refused (ADR 11). Whatever goes wrong is a `StartError` of one line
that never holds the password.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from psycopg import sql

from codehub.db.connecting import connect_error
from codehub.db.locks import AdvisoryLock
from codehub.db.migrations import BASELINE
from codehub.errors import StartError

log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"
_CONNECT_SECONDS = 10
_OTHERS_SECONDS = 300  # how long to wait for another process that is migrating
_ASK_AGAIN_SECONDS = 0.2
_LOCK_SECONDS = 30  # how long one statement may wait for a table that someone is using
_STATEMENT_SECONDS = 600

NEWEST = "head"

# Alembic's `op` is one global of the process: threads that migrate different databases must take turns.
_one_at_a_time = threading.Lock()


def upgrade(database_url: str, target: str = NEWEST, *, stop: threading.Event | None = None) -> None:
    """Run every pending revision up to `target`; does nothing on a database that is up to date, or newer and fit.

    `stop` ends the wait for another process that is migrating, and nothing is begun once it is set.
    """
    stop = stop or threading.Event()
    script = ScriptDirectory(str(MIGRATIONS))
    wanted = _revision(script, target)
    with _connection(database_url) as raw:
        if _is_at(raw, wanted, script):
            return
        _wait_for_others(raw, stop)
        if not stop.is_set() and not _is_at(raw, wanted, script):  # another process may have migrated meanwhile
            log.info("migrating the database from schema version %s to %s", _stored_version(raw) or "none", wanted)
            with _one_at_a_time:
                _run(raw, script, wanted)


def require_newest(database_url: str) -> None:
    """Raise StartError unless the database has this version's schema or one that is fit for it; nothing is changed."""
    script = ScriptDirectory(str(MIGRATIONS))
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
    """The revision that this code needs."""
    return _revision(ScriptDirectory(str(MIGRATIONS)), NEWEST)


def knows(version: str) -> bool:
    """Whether a database at that revision can be brought up to this code's."""
    return version in [revision.revision for revision in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]


def _revision(script: ScriptDirectory, name: str) -> str:
    revision = script.get_revision(name)
    assert revision is not None
    return revision.revision


def floor_of(script: ScriptDirectory, wanted: str) -> str:
    """The oldest version whose code runs on the schema `wanted`."""
    revisions = script.iterate_revisions(wanted, "base")
    return max(getattr(revision.module, "contract_after", BASELINE) for revision in revisions)


def _is_at(raw: psycopg.Connection, wanted: str, script: ScriptDirectory) -> bool:
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
    try:
        raw = psycopg.connect(
            database_url, connect_timeout=_CONNECT_SECONDS, application_name="codehub migrate", autocommit=True
        )
    except psycopg.Error as error:
        # Not chained: libpq's own text can hold parts of a URL that it misread.
        raise connect_error(database_url, error) from None
    try:
        # timezone: M1's timestamps have none and are read as UTC.
        raw.execute("SET timezone = 'UTC'")
        raw.execute(sql.SQL("SET lock_timeout = {}").format(f"{_LOCK_SECONDS}s"))
        raw.execute(sql.SQL("SET statement_timeout = {}").format(f"{_STATEMENT_SECONDS}s"))
        yield raw
    except psycopg.Error as error:
        raise _migration_error(error) from error
    finally:
        raw.close()


def _wait_for_others(raw: psycopg.Connection, stop: threading.Event) -> None:
    """Take the migration lock; it goes with the session, so it cannot outlive this process."""
    until = time.monotonic() + _OTHERS_SECONDS
    while raw.execute("SELECT pg_try_advisory_lock(%s)", [int(AdvisoryLock.MIGRATION)]).fetchone() != (True,):
        if time.monotonic() > until:
            raise StartError(
                f"Another process has been migrating the database for {_OTHERS_SECONDS} seconds.",
                "Wait for it to finish, or end it, and start again.",
            )
        if stop.wait(_ASK_AGAIN_SECONDS):
            return


def _run(raw: psycopg.Connection, script: ScriptDirectory, wanted: str) -> None:
    def pending(found: tuple[str, ...], _context: MigrationContext) -> list[RevisionStep]:
        newest_first = script.iterate_revisions(wanted, found)
        return [MigrationStep.upgrade_from_script(script.revision_map, revision) for revision in newest_first][::-1]

    raw.autocommit = False
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: raw, poolclass=sqlalchemy.pool.StaticPool
    )
    try:
        with engine.connect() as connection, EnvironmentContext(Config(), script, fn=pending) as environment:
            environment.configure(connection=connection, transaction_per_migration=False)
            with environment.begin_transaction():
                environment.run_migrations()
                if wanted > BASELINE:
                    floor = {"version": floor_of(script, wanted)}
                    connection.execute(sqlalchemy.text("UPDATE schema_floor SET version = :version"), floor)
    except sqlalchemy.exc.DBAPIError as error:
        cause = error.orig
        raise (_migration_error(cause) if isinstance(cause, psycopg.Error) else error) from error
    finally:
        engine.dispose()


def _migration_error(error: psycopg.Error) -> StartError:
    if isinstance(error, psycopg.errors.RaiseException):  # a revision's own sentence and next step
        return StartError(error.diag.message_primary or "", error.diag.message_hint or "")
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return StartError(
            "The database could not be migrated, because something else is using its tables.",
            "Stop every other CodeHub process and start again; nothing was changed.",
        )
    log.error("a migration failed", exc_info=error)
    what = error.diag.message_primary or type(error).__name__
    detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    return StartError(f"The database could not be migrated: {what}{detail}.", "Nothing was changed.")
