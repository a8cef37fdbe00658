"""Connections to PostgreSQL, each acting as one of the two roles that own columns (contract 3).

A pool outlives the server: connections that died are replaced when the next one is asked for. Every wait has an end.
`connection` is the edge where "PostgreSQL is away, slow or busy" becomes `Unavailable`; nothing above it sees psycopg.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from codehub.errors import Unavailable

Connection = AsyncConnection[TupleRow]
Pool = AsyncConnectionPool[Connection]

# Attempts to reconnect are spaced 1, 2, 4 … s; giving up early lets the next request start over at once, so that a
# server that was away for an hour is in use again within seconds.
_RECONNECT_SECONDS = 5


# A session that the server ended because its process was paused is no operational error to psycopg; to us it is one.
_OUTAGES = (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)


class Role(StrEnum):
    """Who writes; migration 0007 says which columns."""

    API = "codehub_api"
    CONTROLLER = "codehub_controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds."""

    connect: int = 5
    checkout: float = 10  # waiting for a free connection
    statement: float = 30
    # A process that is paused in the middle of a transaction must not hold its locks: a new leader waits for them.
    idle_in_transaction: float = 15


_DEFAULT_TIMEOUTS = Timeouts()

_SET_UP = """
SELECT set_config('role', %s, false), set_config('TimeZone', 'UTC', false), set_config('statement_timeout', %s, false),
       set_config('idle_in_transaction_session_timeout', %s, false)
"""


@asynccontextmanager
async def open_pool(
    database_url: str,
    role: Role,
    *,
    min_size: int = 1,
    max_size: int = 10,
    timeouts: Timeouts = _DEFAULT_TIMEOUTS,
) -> AsyncIterator[Pool]:
    """A pool of connections that act as `role`. Does not wait for the server: the first use does."""

    async def set_up(conn: Connection) -> None:
        milliseconds = [str(round(seconds * 1000)) for seconds in (timeouts.statement, timeouts.idle_in_transaction)]
        await conn.execute(_SET_UP, [role.value, *milliseconds])
        await conn.commit()

    pool: Pool = AsyncConnectionPool(
        database_url,
        min_size=min_size,
        max_size=max_size,
        open=False,
        name=role.value,
        configure=set_up,
        timeout=timeouts.checkout,
        reconnect_timeout=_RECONNECT_SECONDS,
        kwargs={
            "application_name": role.value,
            "connect_timeout": timeouts.connect,
            # A peer that vanished without a word is noticed within a minute.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
        },
    )
    async with pool:
        yield pool


@asynccontextmanager
async def connection(pool: Pool) -> AsyncIterator[Connection]:
    """One connection and one transaction: committed at the end, rolled back by an exception."""
    try:
        conn = await _living_connection(pool)
        try:
            async with conn:
                yield conn
        finally:
            await pool.putconn(conn)
    except _OUTAGES as error:
        raise Unavailable("The database did not answer in time.", "Try again in a moment.") from error


async def _living_connection(pool: Pool) -> Connection:
    """The pool's own check pauses longer after each dead connection; after a restart all of them are dead."""
    for _ in range(pool.max_size):
        conn = await pool.getconn()
        try:
            await pool.check_connection(conn)
        except psycopg.OperationalError:
            await pool.putconn(conn)  # which replaces it
        except BaseException:
            await pool.putconn(conn)
            raise
        else:
            return conn
    return await pool.getconn()


async def ping(pool: Pool) -> None:
    """Return if the database answers a query, else raise `Unavailable`."""
    async with connection(pool) as conn:
        await conn.execute("SELECT 1")
