"""Logins of single parts: the proxy's can find out who may enter, and nothing else; nobody else's rights change."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from codehub.db import logins, migrate
from codehub.db.locks import AdvisoryLock
from codehub.db.pool import Role, open_pool, ping
from codehub.errors import StartError
from tests.support import Databases, eventually


@pytest.fixture
def login(databases: Databases, database: str) -> Iterator[str]:
    """A URL of a login that is not there yet."""
    name = f"{databases.prefix}_login"
    yield make_conninfo(database, user=name, password="drawn by lot")
    with psycopg.connect(database, autocommit=True) as owner:
        if owner.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).fetchone() is not None:
            owner.execute(SQL("DROP OWNED BY {}").format(Identifier(name)))
            owner.execute(SQL("DROP ROLE {}").format(Identifier(name)))


def as_pool(url: str, role: Role) -> None:
    """What each part does with its URL."""

    async def use() -> None:
        async with open_pool(url, role, max_size=1) as pool:
            await ping(pool)

    asyncio.run(use())


def refused(conn: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(InsufficientPrivilege):
            conn.execute(statement.encode())


def test_the_proxy_s_login_is_its_role_and_nothing_else(database: str, login: str) -> None:
    logins.ensure(database, login, Role.PROXY)
    as_pool(login, Role.PROXY)
    with psycopg.connect(login, autocommit=True) as conn:
        conn.execute("SELECT id, token_hash, expires_at FROM sessions")
        refused(
            conn,
            "SELECT password_hash FROM users",
            "SELECT username FROM users",
            "TABLE audit_log",
            "TABLE workspaces",
            "UPDATE workspaces SET desired_state = 'RUNNING'",
            "DELETE FROM sessions",
            "CREATE TABLE public.mine ()",
            "CREATE ROLE mine",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SET ROLE codehub_api",
            "SET ROLE codehub_controller",
        )
        row = conn.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication FROM pg_roles "
            "WHERE rolname = current_user"
        ).fetchone()
        assert row == (False,) * 5


def test_an_api_s_login_finds_its_schema_and_serves(database: str, login: str) -> None:
    logins.ensure(database, login, Role.API)
    migrate.require_newest(login)
    as_pool(login, Role.API)
    with psycopg.connect(login, autocommit=True) as conn:
        conn.execute("SELECT password_hash FROM users")
        refused(
            conn,
            "SET ROLE codehub_controller",
            "UPDATE alembic_version SET version_num = '1'",
            "CREATE ROLE x",
        )


def test_a_new_password_is_taken_over_and_what_works_is_left_alone(database: str, login: str) -> None:
    kept = "SELECT rolpassword FROM pg_authid WHERE rolname = %s"
    name = conninfo_to_dict(login)["user"]
    with psycopg.connect(database, autocommit=True) as owner:
        logins.ensure(database, login, Role.PROXY)
        first = owner.execute(kept, [name]).fetchone()
        assert first is not None
        assert str(first[0]).startswith("SCRAM-SHA-256$")
        logins.ensure(database, login, Role.PROXY)
        assert owner.execute(kept, [name]).fetchone() == first
        changed = make_conninfo(login, password="another")
        logins.ensure(database, changed, Role.PROXY)
        as_pool(changed, Role.PROXY)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(login)


def test_any_number_of_processes_may_make_it_at_once(database: str, login: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(logins.ensure, database, login, Role.PROXY) for _ in range(4)]:
            done.result(60)
    as_pool(login, Role.PROXY)


def test_a_user_with_rights_of_its_own_is_not_touched(database: str) -> None:
    with pytest.raises(StartError, match="it has rights of its own"):
        logins.ensure(database, make_conninfo(database, password="mistyped"), Role.PROXY)
    with psycopg.connect(database):
        pass
    with pytest.raises(StartError, match="it has rights of its own"):
        logins.ensure(database, make_conninfo(database, user=Role.API, password="p"), Role.PROXY)
    with pytest.raises(StartError, match="it has rights of its own"):
        logins.ensure(database, database, Role.PROXY)  # it would work, and protect from nothing


@pytest.fixture
def foreign(database: str, login: str) -> str:
    """The same login, of somebody else on this server."""
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'theirs'").format(user_of(login)))
        owner.execute(SQL("GRANT CONNECT ON DATABASE {} TO {}").format(Identifier(owner.info.dbname), user_of(login)))
    return make_conninfo(login, password="theirs")


def user_of(login: str) -> Identifier:
    return Identifier(str(conninfo_to_dict(login)["user"]))


def test_another_program_s_login_keeps_its_password(database: str, login: str, foreign: str) -> None:
    for statement in ("COMMENT ON ROLE {} IS 'theirs'", "GRANT codehub_proxy TO {}", "GRANT codehub_api TO {}"):
        with psycopg.connect(database, autocommit=True) as owner:
            owner.execute(SQL(statement).format(user_of(login)))
        with pytest.raises(StartError, match="is not this database's"):
            logins.ensure(database, login, Role.PROXY)
        with psycopg.connect(foreign):
            pass


def test_one_that_was_made_by_hand_is_used_and_taken_over(database: str, login: str, foreign: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(SQL("GRANT codehub_proxy TO {}").format(user_of(login)))
    logins.ensure(database, foreign, Role.PROXY)
    logins.ensure(database, login, Role.PROXY)
    as_pool(login, Role.PROXY)


def test_installations_on_one_server_do_not_cut_each_other_off(databases: Databases, database: str, login: str) -> None:
    logins.ensure(database, login, Role.PROXY)
    with databases.one() as second:
        migrate.upgrade(second)
        others = make_conninfo(second, user=conninfo_to_dict(login)["user"], password="another")
        with pytest.raises(StartError, match="is not this database's"):
            logins.ensure(second, others, Role.PROXY)
    as_pool(login, Role.PROXY)


def test_two_parts_have_two_logins(login: str) -> None:
    logins.require_apart([login])
    with pytest.raises(StartError, match="is the login of two parts"):
        logins.require_apart([login, make_conninfo(login, password="another")])


def test_it_waits_for_whoever_migrates(database: str, login: str) -> None:
    asked = """SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%pg_try_advisory_lock%'
                              AND datname = current_database() AND pid <> pg_backend_pid())"""
    with psycopg.connect(database, autocommit=True) as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT pg_advisory_lock(%s)", [int(AdvisoryLock.MIGRATION)])
        done = thread.submit(logins.ensure, database, login, Role.PROXY)
        eventually(lambda: other.execute(asked).fetchone() == (True,), "it asks for the lock")
        assert not done.done()
        other.execute("SELECT pg_advisory_unlock(%s)", [int(AdvisoryLock.MIGRATION)])
        done.result(60)
    as_pool(login, Role.PROXY)


def test_what_goes_wrong_is_one_line(database: str, login: str) -> None:
    with pytest.raises(StartError, match="could not be made: cannot execute CREATE ROLE in a read-only transaction"):
        logins.ensure(make_conninfo(database, options="-cdefault_transaction_read_only=on"), login, Role.PROXY)


def test_whoever_may_not_make_it_is_told_who_can(databases: Databases, database: str, login: str) -> None:
    name = f"{databases.prefix}_weak"
    wanted = conninfo_to_dict(login)["user"]
    with psycopg.connect(database, autocommit=True) as server:
        server.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'p'").format(Identifier(name)))
        try:
            server.execute(
                SQL("GRANT CONNECT ON DATABASE {} TO {}").format(
                    Identifier(str(conninfo_to_dict(database)["dbname"])), Identifier(name)
                )
            )
            with pytest.raises(StartError) as refused:
                logins.ensure(make_conninfo(database, user=name, password="p"), login, Role.PROXY)
            assert f"GRANT codehub_proxy TO {wanted};" in refused.value.hint
            assert "drawn by lot" not in f"{refused.value}{refused.value.hint}"
        finally:
            server.execute(SQL("DROP OWNED BY {}").format(Identifier(name)))
            server.execute(SQL("DROP ROLE {}").format(Identifier(name)))


@pytest.mark.parametrize("lacks", ["user", "password"])
def test_a_login_needs_a_name_and_a_password(database: str, lacks: str) -> None:
    parts = {name: value for name, value in conninfo_to_dict(database).items() if name != lacks} | {
        "sslmode": "disable"
    }
    with pytest.raises(StartError, match="has no user or no password"):
        logins.ensure(database, make_conninfo("", **parts), Role.PROXY)
