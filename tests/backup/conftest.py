from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from codehub.db.pool import Connection
from codehub.signals.connect import Redis, open_redis
from tests.support import Databases


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    """A connection as the tables' owner; every statement commits."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
def second(databases: Databases) -> Iterator[str]:
    """An empty database to restore into."""
    with databases.one() as url:
        yield url


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "codehub.backup"


@pytest.fixture
async def redis(server_redis: str) -> AsyncIterator[Redis]:
    async with open_redis(server_redis) as client:
        await client.flushall()
        yield client
        await client.flushall()
