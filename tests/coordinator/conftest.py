from collections.abc import AsyncIterator

import psycopg
import pytest

from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection, Role, open_pool
from codehub.signals.connect import Redis, open_redis


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    """A connection as the tables' owner, for arranging and looking; every statement commits."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
async def records(database: str) -> AsyncIterator[DatabaseRecords]:
    async with (
        open_pool(database, Role.CONTROLLER, max_size=2) as controller,
        open_pool(database, Role.API, max_size=2) as api,
    ):
        yield DatabaseRecords(controller, api)


@pytest.fixture
async def redis(server_redis: str) -> AsyncIterator[Redis]:
    """An empty Redis: tests run one after the other."""
    async with open_redis(server_redis) as client:
        await client.flushall()
        yield client
        await client.flushall()
