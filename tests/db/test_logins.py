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
from codehub.db.pool import Role, open_pool, ping
from codehub.errors import StartError
from tests.support import Databases


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


def test_the_proxy_s_login_is_its_role_and_nothing_else(database: str, login: str) -> None:
    logins.ensure(database, login, Role.PROXY)
    as_pool(login, Role.PROXY)
    with psycopg.connect(login, autocommit=True) as conn:
        conn.execute("SELECT id, token_hash, expires_at FROM sessions")
        for statement in (
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
        ):
            with pytest.raises(InsufficientPrivilege):
                conn.execute(statement.encode())
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
        for statement in (
            "SET ROLE codehub_controller",
            "UPDATE alembic_version SET version_num = '1'",
            "CREATE ROLE x",
        ):
            with pytest.raises(InsufficientPrivilege):
                conn.execute(statement.encode())


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
    logins.ensure(database, database, Role.PROXY)  # the same one for all is a choice, too


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
