"""Migrations: from anywhere to the same schema, at once or not at all, by any number of processes."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from alembic.script import ScriptDirectory
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from codehub.db import migrate
from codehub.db.locks import AdvisoryLock
from codehub.errors import StartError
from tests.db.schema import snapshot
from tests.support import Databases

USER = UUID(int=1)
WORKSPACE = UUID(int=2)


def _m1_rows(conn: psycopg.Connection) -> None:
    conn.execute("INSERT INTO users (id, username) VALUES (%s, 'ada')", [USER])
    conn.execute(
        """INSERT INTO workspaces (id, owner_user_id, name, image_ref, instance_backend, storage_backend,
               home_store_key, observed_status, desired_state)
           VALUES (%(id)s, %(user)s, 'w', 'ide', 'local-docker', 'minio', 'ws-' || %(id)s || '-home', 'RUNNING',
                   'RUNNING')""",
        {"id": WORKSPACE, "user": USER},
    )


def _m2_rows(conn: psycopg.Connection) -> None:
    conn.execute("INSERT INTO users (id, username) VALUES (%s, 'ada')", [USER])
    conn.execute(
        """INSERT INTO workspaces (id, owner_user_id, name, image_ref, instance_backend, storage_backend,
               home_store_key, phase, standby_ttl_seconds, archive_ttl_seconds)
           VALUES (%(id)s, %(user)s, 'w', 'ide', 'docker', 'docker-volume', 'ws-' || %(id)s || '-home', 'RUNNING',
                   600, 1800)""",
        {"id": WORKSPACE, "user": USER},
    )


def _accounts_too(conn: psycopg.Connection) -> None:
    _m2_rows(conn)
    conn.execute("INSERT INTO sessions (token_hash, user_id, expires_at) VALUES ('x', %s, now())", [USER])
    conn.execute("INSERT INTO audit_log (actor_kind, action) VALUES ('system', 'started')")


def _history_too(conn: psycopg.Connection) -> None:
    _accounts_too(conn)
    conn.execute(
        "INSERT INTO workspace_history (workspace_id, at, phase, operation) VALUES (%s, now(), 'RUNNING', 'NONE')",
        [WORKSPACE],
    )
    conn.execute("UPDATE leadership SET epoch = 7")


def _visits_too(conn: psycopg.Connection) -> None:
    _history_too(conn)
    conn.execute(
        "INSERT INTO visits (session_id, workspace_id, expires_at) SELECT id, %s, now() FROM sessions", [WORKSPACE]
    )


def _samples_too(conn: psycopg.Connection) -> None:
    _visits_too(conn)
    conn.execute("INSERT INTO samples (at, running, standby, archived, pending, error) VALUES (now(), 1, 2, 3, 4, 5)")


def _wait_until_it_blocks(holder: psycopg.Connection, waiting: "Future[Any]") -> None:
    """Until some session waits for a lock that `holder` has."""
    blocked = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
    while holder.execute(blocked).fetchone() != (True,):
        assert not waiting.done()


def _wait_until_it_asks(holder: psycopg.Connection, waiting: "Future[Any]") -> None:
    """Until another session has asked for the migration lock and not got it."""
    asked = """SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'codehub migrate'
                              AND datname = current_database() AND query LIKE '%pg_try_advisory_lock%')"""
    while holder.execute(asked).fetchone() != (True,):
        assert not waiting.done()


# What an installation at each revision may hold.
ROWS_AT: dict[str, Callable[[psycopg.Connection], None]] = {
    "0001": _m1_rows,
    "0002": _m2_rows,
    "0003": _accounts_too,
    "0004": _history_too,
    "0005": _history_too,
    "0006": _history_too,
    "0007": _history_too,
    "0008": _history_too,
    "0009": _history_too,
    "0010": _history_too,
    "0011": _history_too,
    "0012": _visits_too,
    "0013": _visits_too,
    "0014": _samples_too,
    "0015": _samples_too,
    "0016": _samples_too,
    "0017": _samples_too,
    "0018": _samples_too,
    "0019": _samples_too,
    "0020": _samples_too,
    "0021": _samples_too,
    "0022": _samples_too,
    "0023": _samples_too,
    "0024": _samples_too,
    "0025": _samples_too,
    "0026": _samples_too,
    "0027": _samples_too,
    "0028": _samples_too,
    "0029": _samples_too,
    "0030": _samples_too,
    "0031": _samples_too,
    "0032": _samples_too,
    "0033": _samples_too,
    "0034": _samples_too,
}


def test_from_empty_to_the_newest_version(empty_database: str) -> None:
    assert migrate.schema_version(empty_database) is None
    migrate.upgrade(empty_database)
    assert migrate.schema_version(empty_database) == migrate.newest_version()


def test_every_version_is_tried() -> None:
    assert list(ROWS_AT)[-1] == migrate.newest_version()
    assert list(ROWS_AT) == [f"{number:04}" for number in range(1, len(ROWS_AT) + 1)]


@pytest.mark.parametrize("version", ROWS_AT)
def test_from_every_version_to_the_same_schema(version: str, empty_database: str, migrated_template: str) -> None:
    migrate.upgrade(empty_database, version)
    with psycopg.connect(empty_database) as conn:
        ROWS_AT[version](conn)
    migrate.upgrade(empty_database)
    assert snapshot(empty_database) == snapshot(migrated_template)
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT username FROM users").fetchall() == [("ada",)]
        kept = conn.execute("SELECT id, owner_user_id, phase, desired_state FROM workspaces").fetchall()
        assert kept == [(WORKSPACE, USER, "RUNNING", "RUNNING")]
        if version >= "0004":
            assert conn.execute("SELECT epoch FROM leadership").fetchall() == [(7,)]
            assert conn.execute("SELECT count(*) FROM workspace_history").fetchall() == [(1,)]


def test_a_snapshot_sees_a_privilege_and_an_index(databases: Databases, migrated_template: str) -> None:
    with databases.one(migrated_template) as url:
        with psycopg.connect(url) as conn:
            conn.execute("GRANT UPDATE (phase) ON workspaces TO codehub_api")
            conn.execute("DROP INDEX idx_workspaces_error")
        changed = snapshot(url).items() ^ snapshot(migrated_template).items()
    assert {what for what, _ in changed} == {"column workspaces.phase", "index idx_workspaces_error"}


def test_again_changes_nothing(database: str, migrated_template: str) -> None:
    migrate.upgrade(database)
    assert snapshot(database) == snapshot(migrated_template)


def test_processes_that_migrate_at_once_take_turns(empty_database: str, migrated_template: str) -> None:
    together = threading.Barrier(4)

    def run() -> None:
        together.wait()
        migrate.upgrade(empty_database)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(run) for _ in range(4)]:
            done.result()
    assert snapshot(empty_database) == snapshot(migrated_template)


def test_databases_of_one_server_migrate_at_once(databases: Databases) -> None:
    with databases.one() as first, databases.one() as second, ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(migrate.upgrade, url) for url in (first, second)]:
            done.result()
        assert snapshot(first) == snapshot(second)


def _making_roles(api: str, controller: str) -> bytes:
    """Revision 0007's way of making the roles, under other names: the server's own are in use."""
    revision = ScriptDirectory(str(migrate.MIGRATIONS)).get_revision("0007")
    assert revision is not None
    statement: str = revision.module.ROLES
    return statement.replace("codehub_api", api).replace("codehub_controller", controller).encode()


def test_two_databases_may_make_the_roles_at_the_same_moment(empty_database: str, database: str) -> None:
    """Roles belong to the server, the migration lock to one database."""
    prefix = str(conninfo_to_dict(database)["dbname"])
    statement = _making_roles(f"{prefix}_a", f"{prefix}_c")
    with psycopg.connect(empty_database) as first, psycopg.connect(database) as second:
        first.execute(statement)
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(second.execute, statement)
            _wait_until_it_blocks(first, done)
            first.commit()
            done.result()
        second.commit()
        second.execute(SQL("DROP ROLE {}, {}").format(Identifier(f"{prefix}_a"), Identifier(f"{prefix}_c")))


def test_it_waits_for_whoever_migrates(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT pg_advisory_lock(%s)", [int(AdvisoryLock.MIGRATION)])
        done = thread.submit(migrate.upgrade, empty_database)
        _wait_until_it_asks(other, done)
        assert migrate.schema_version(empty_database) is None
        other.execute("SELECT pg_advisory_unlock(%s)", [int(AdvisoryLock.MIGRATION)])
        done.result()
    assert migrate.schema_version(empty_database) == migrate.newest_version()


def test_the_wait_for_whoever_migrates_can_be_ended(empty_database: str) -> None:
    stop = threading.Event()
    with psycopg.connect(empty_database, autocommit=True) as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT pg_advisory_lock(%s)", [int(AdvisoryLock.MIGRATION)])
        done = thread.submit(migrate.upgrade, empty_database, stop=stop)
        _wait_until_it_asks(other, done)
        stop.set()
        done.result(timeout=30)
    assert migrate.schema_version(empty_database) is None


def test_a_failure_leaves_nothing(empty_database: str) -> None:
    with psycopg.connect(empty_database) as conn:
        conn.execute("CREATE TABLE sessions (of_someone_else integer)")  # in the way of 0003
    before = snapshot(empty_database)
    with pytest.raises(StartError, match=r"could not be migrated: relation \"sessions\" already exists\."):
        migrate.upgrade(empty_database)
    assert snapshot(empty_database) == before
    assert migrate.schema_version(empty_database) is None


def test_a_failure_leaves_the_rows_of_the_version_before(empty_database: str) -> None:
    migrate.upgrade(empty_database, "0001")
    with psycopg.connect(empty_database) as conn:
        _m1_rows(conn)
        conn.execute("INSERT INTO users (id, username) VALUES (gen_random_uuid(), 'ADA')")
    before = snapshot(empty_database)
    with pytest.raises(StartError, match=r"differ only in upper and lower case: (ada, ADA|ADA, ada)\. Rename"):
        migrate.upgrade(empty_database)
    assert snapshot(empty_database) == before
    assert migrate.schema_version(empty_database) == "0001"


def test_a_newer_database_is_left_alone(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
        conn.execute("UPDATE schema_floor SET version = '9998'")  # it was contracted since
    before = snapshot(database)
    with pytest.raises(StartError):
        migrate.require_newest(database)
    with pytest.raises(StartError) as refused:
        migrate.upgrade(database)
    newest = migrate.newest_version()
    assert refused.value.message == f"The database has schema version 9999, newer than this CodeHub ({newest})."
    assert refused.value.hint
    assert snapshot(database) == before


def test_a_newer_database_that_was_only_expanded_is_used_as_it_is(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    before = snapshot(database)
    migrate.upgrade(database)
    migrate.require_newest(database)
    assert snapshot(database) == before
    assert migrate.schema_version(database) == "9999"


def test_a_newer_database_from_before_there_was_a_floor_is_refused(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
        conn.execute("DROP TABLE schema_floor")
    with pytest.raises(StartError, match="newer than this CodeHub"):
        migrate.require_newest(database)


def test_an_ordinary_owner_can_migrate(databases: Databases) -> None:
    """No superuser is needed: the owner of the database, who may create roles or finds them made."""
    name = f"{databases.prefix}_ordinary"
    with databases.one() as url, psycopg.connect(url, autocommit=True) as server:
        server.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'p'").format(Identifier(name)))
        try:
            database = conninfo_to_dict(url)["dbname"]
            server.execute(SQL("ALTER DATABASE {} OWNER TO {}").format(Identifier(str(database)), Identifier(name)))
            for role in ("codehub_api", "codehub_controller", "codehub_proxy"):
                exists = server.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone() is not None
                if not exists:
                    server.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(role)))
            mine = make_conninfo(url, user=name, password="p")
            with pytest.raises(StartError, match="is not a member of the role") as refused:
                migrate.upgrade(mine)
            grant = f"GRANT codehub_api TO {name};"
            assert grant in refused.value.hint
            for role in ("codehub_api", "codehub_controller", "codehub_proxy"):
                server.execute(SQL("GRANT {} TO {}").format(Identifier(role), Identifier(name)))
            migrate.upgrade(mine)
            with psycopg.connect(mine) as conn:
                conn.execute("SET ROLE codehub_controller")
        finally:
            server.execute(SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(Identifier(name)))
            server.execute(SQL("DROP OWNED BY {}").format(Identifier(name)))
            server.execute(SQL("DROP ROLE {}").format(Identifier(name)))


def test_whoever_may_create_roles_can_become_them(databases: Databases) -> None:
    """No superuser is needed; from PostgreSQL 16 on creating a role is not enough to become it."""
    name = f"{databases.prefix}_creator"
    roles = f"{name}_a", f"{name}_c"
    with databases.one() as url, psycopg.connect(url, autocommit=True) as server:
        server.execute(SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD 'p'").format(Identifier(name)))
        try:
            with psycopg.connect(make_conninfo(url, user=name, password="p")) as conn:
                conn.execute(_making_roles(*roles))
                for role in roles:
                    conn.execute(SQL("SET ROLE {}").format(Identifier(role)))
                    conn.execute("RESET ROLE")
        finally:
            server.execute(SQL("DROP ROLE IF EXISTS {}, {}").format(*map(Identifier, roles)))
            server.execute(SQL("DROP ROLE {}").format(Identifier(name)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dbname": "missing"}, "has no database missing"),
        ({"password": "sesame-wrong"}, "refused the password of user"),
        ({"host": "127.0.0.1", "hostaddr": "", "port": "1"}, "at 127.0.0.1:1 cannot be reached"),
        ({"host": "/nowhere", "hostaddr": ""}, "at /nowhere.* cannot be reached"),
        ({"host": "no-such-host.invalid", "hostaddr": ""}, "no-such-host.invalid.*, is not known"),
    ],
)
def test_no_connection_is_one_line(database_server: str, change: dict[str, str], message: str) -> None:
    with pytest.raises(StartError, match=message) as refused:
        migrate.upgrade(make_conninfo(database_server, **change))
    assert "\n" not in str(refused.value)
    assert refused.value.hint
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:sesame@street@localhost/codehub",
        "postgresql://me:sesame/street@localhost/codehub",
        "postgresql:me:sesame",
        "sesame",
        "postgresql://me:sesame@localhost:port/codehub",
    ],
)
def test_a_malformed_url_shows_no_password(url: str) -> None:
    with pytest.raises(StartError, match="is not one that PostgreSQL understands") as refused:
        migrate.upgrade(url)
    assert "sesame" not in str(refused.value)
    assert "street" not in str(refused.value)
    assert refused.value.__cause__ is None
