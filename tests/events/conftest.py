from collections.abc import AsyncIterator

import psycopg
import pytest

from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.signals.connect import Redis, open_redis


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    """A connection as the tables' owner, for arranging and looking; every statement commits."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with open_pool(database, Role.API, max_size=4) as pool:
        yield pool


@pytest.fixture
async def redis(server_redis: str) -> AsyncIterator[Redis]:
    """An empty Redis: tests run one after the other."""
    async with open_redis(server_redis) as client:
        await client.flushall()
        yield client
        await client.flushall()
