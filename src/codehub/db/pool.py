"""Connections to PostgreSQL, each acting as a role that has only its own columns (contract 3).

A pool outlives the server: connections that died are replaced when the next one is asked for. Every wait has an end.
`connection` is the edge where "PostgreSQL is away, slow or busy" becomes `Unavailable`; nothing above it sees psycopg.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from codehub.errors import Unavailable
from codehub.tracing import span

T = TypeVar("T")
Connection = AsyncConnection[TupleRow]


class Pool(AsyncConnectionPool[Connection]):
    """A pool whose transactions may have to end in time."""

    answer_seconds: float | None = None
    commit_seconds = 0.0
    shared: dict[object, Any]  # of sharing.py


# Attempts to reconnect are spaced 1, 2, 4 … s; giving up early lets the next request start over at once, so that a
# server that was away for an hour is in use again within seconds.
_RECONNECT_SECONDS = 5


# A session that the server ended because its process was paused is no operational error to psycopg; to us it is one.
_OUTAGES = (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)


class Role(StrEnum):
    """Who writes; migration 0007 says which columns."""

    API = "codehub_api"
    CONTROLLER = "codehub_controller"
    PROXY = "codehub_proxy"  # migration 0012: it only looks up who may enter


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds."""

    connect: int = 5
    checkout: float = 10  # waiting for a free connection
    statement: float = 30
    # A process that is paused in the middle of a transaction must not hold its locks: a new leader waits for them.
    idle_in_transaction: float = 15
    # A whole transaction, waiting for its connection included; None is no limit. A server that is frozen, or behind a
    # network that swallows everything, enforces none of its own limits.
    answer: float | None = None
    # … but its commit, which begins in time, has this much longer: cut off, nobody knows whether it was written.
    commit: float = 0.2


_DEFAULT_TIMEOUTS = Timeouts()

# Whoever waits for an answer over HTTP is told within two seconds that there is none.
API_TIMEOUTS = Timeouts(connect=2, checkout=1.2, statement=1.5, idle_in_transaction=5, answer=1.7)

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

    pool = Pool(
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
    pool.answer_seconds, pool.commit_seconds, pool.shared = timeouts.answer, timeouts.commit, {}
    async with pool:
        yield pool


@asynccontextmanager
async def connection(pool: Pool, until: float | None = None) -> AsyncIterator[Connection]:
    """One connection and one transaction: committed at the end, rolled back by an exception.

    Its commit begins until then, by the loop's clock; unless that is said, within the pool's time for an answer.
    """
    if until is None and pool.answer_seconds is not None:
        until = asyncio.get_running_loop().time() + pool.answer_seconds
    try:
        with span("transaction", codehub__role=pool.name):
            conn = await _living_connection(pool, until)
            try:
                with _in_time(conn, None if until is None else until + pool.commit_seconds):
                    async with conn:
                        with _in_time(conn, until):
                            yield conn
            finally:
                await pool.putconn(conn)
    except _OUTAGES as error:
        raise Unavailable("The database did not answer in time.", "Try again in a moment.") from error


async def read(pool: Pool, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What only reads: each of its statements by itself, without a transaction around them, which costs half as much.

    `work` is done again when its connection turns out to be dead: after a restart all of them are.
    """
    until = None if pool.answer_seconds is None else asyncio.get_running_loop().time() + pool.answer_seconds
    try:
        for _ in range(pool.max_size):
            conn = await pool.getconn(_left(pool, until))
            try:
                await conn.set_autocommit(True)
                with span("read", codehub__role=pool.name), _in_time(conn, until):
                    return await work(conn)
            except _OUTAGES:
                if not conn.closed:  # it lives: whatever it is will be the same on another
                    raise
            finally:
                if not conn.closed and conn.info.transaction_status is TransactionStatus.IDLE:
                    await conn.set_autocommit(False)
                await pool.putconn(conn)
        raise psycopg.OperationalError("no connection lives")
    except _OUTAGES as error:
        raise Unavailable("The database did not answer in time.", "Try again in a moment.") from error


async def _living_connection(pool: Pool, until: float | None) -> Connection:
    """The pool's own check pauses longer after each dead connection; after a restart all of them are dead."""
    for _ in range(pool.max_size):
        conn = await pool.getconn(_left(pool, until))
        try:
            with _in_time(conn, until):
                await pool.check_connection(conn)
        except psycopg.OperationalError:
            await pool.putconn(conn)  # which replaces it
        except BaseException:
            await pool.putconn(conn)
            raise
        else:
            return conn
    return await pool.getconn(_left(pool, until))


def _left(pool: Pool, until: float | None) -> float:
    """Seconds to wait for a connection."""
    return pool.timeout if until is None else min(pool.timeout, max(0.001, until - asyncio.get_running_loop().time()))


@contextmanager
def _in_time(conn: Connection, until: float | None) -> Iterator[None]:
    """Whoever still waits for the server at that time gets an OperationalError, however silent the server is."""
    if until is None:
        yield
        return
    alarm = asyncio.get_running_loop().call_at(until, hang_up, conn)
    try:
        yield
    finally:
        alarm.cancel()


def hang_up(conn: Connection) -> None:
    """Makes whoever waits on the connection fail at once; cancelling them would wait for the server."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


async def ping(pool: Pool) -> None:
    """Return if the database answers a query, else raise `Unavailable`."""
    async with connection(pool) as conn:
        await conn.execute("SELECT 1")
