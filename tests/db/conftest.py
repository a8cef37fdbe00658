import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from codehub.db import migrate
from codehub.db.pool import Connection, Role
from codehub.embedded import DataDir, EmbeddedServers
from tests.db.support import Databases


def _short_folder() -> Path:
    """Not `tmp_path`: it is too long for a socket, and closed to the account that the server runs under."""
    folder = Path(tempfile.mkdtemp(prefix="ch-", dir="/tmp"))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
async def database_server() -> AsyncIterator[str]:
    """A PostgreSQL to make databases on: the one in CODEHUB_TEST_DATABASE_URL, else one of our own."""
    given = os.environ.get("CODEHUB_TEST_DATABASE_URL")
    if given:
        yield given
        return
    folder = _short_folder()
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data, durable=False, valkey=False).running() as servers:
            assert servers.database_url is not None
            yield servers.database_url
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def databases(database_server: str) -> Databases:
    return Databases(database_server)


@pytest.fixture(scope="session")
def migrated_template(databases: Databases) -> Iterator[str]:
    """A database at the newest version, to be cloned and never connected to."""
    with databases.one() as url:
        migrate.upgrade(url)
        yield url


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


@pytest.fixture
def database(databases: Databases, migrated_template: str) -> Iterator[str]:
    """A database at the newest version, of the test's own."""
    with databases.one(migrated_template) as url:
        yield url


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    """A connection as the tables' owner, for arranging and looking; every statement commits."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
async def api(database: str) -> AsyncIterator[Connection]:
    async with await connect_as(database, Role.API) as conn:
        yield conn


@pytest.fixture
async def controller(database: str) -> AsyncIterator[Connection]:
    async with await connect_as(database, Role.CONTROLLER) as conn:
        yield conn


async def connect_as(database: str, role: Role) -> Connection:
    """A connection that acts as the role; every statement commits unless the test opens a transaction."""
    conn = await psycopg.AsyncConnection.connect(database, autocommit=True)
    await conn.execute(SQL("SET ROLE {}").format(Identifier(role)))
    return conn
