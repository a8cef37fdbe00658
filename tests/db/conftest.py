from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from codehub.db.pool import Connection, Role


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
