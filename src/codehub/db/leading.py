"""The leader's own connection: it holds the session-level advisory lock, and nothing else uses it.

The server frees the lock when the session ends, however it ends: the process died, the network was cut, or the process
is frozen and has not asked anything for `LOST_AFTER_SECONDS` (idle_session_timeout). Whoever asks every few seconds
keeps it; whoever could not ask for that long must take it as lost.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
from psycopg.rows import TupleRow

from codehub.db.leadership import bump_epoch
from codehub.db.locks import AdvisoryLock
from codehub.db.pool import Connection, Role, hang_up
from codehub.errors import Unavailable

LOST_AFTER_SECONDS = 6.0
_ANSWER_SECONDS = 2.0

_SET_UP = "SELECT set_config('role', %s, false), set_config('idle_session_timeout', %s, false)"
_TRY = "SELECT pg_try_advisory_lock(%s)"
_HOLDS = """
SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted
               AND (classid::bigint << 32) | objid::bigint = %s)
"""


class LeaderSeat:
    """A session that may hold the lock. Every call is answered within seconds or raises Unavailable."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    async def try_to_take(self) -> bool:
        """Whether the lock is ours now."""
        return bool(await self._ask(_TRY, int(AdvisoryLock.LEADER)))

    async def begin(self, holder: str) -> int:
        """Raise the epoch: from here on no earlier leader can write."""
        with self._answered_within(LOST_AFTER_SECONDS):
            return await bump_epoch(self._conn, holder)

    async def is_held(self) -> bool:
        """Whether the session still holds the lock."""
        return bool(await self._ask(_HOLDS, int(AdvisoryLock.LEADER)))

    async def _ask(self, query: str, argument: int) -> object:
        with self._answered_within(_ANSWER_SECONDS):
            row = await (await self._conn.execute(query, [argument])).fetchone()
            return row[0] if row is not None else None

    @contextmanager
    def _answered_within(self, seconds: float) -> Iterator[None]:
        """Hangs up when the time is over: cancelling a query would first wait for the server that does not answer."""
        timer = asyncio.get_running_loop().call_later(seconds, hang_up, self._conn)
        try:
            yield
        except psycopg.Error as error:
            raise Unavailable("The database did not answer the leader in time.") from error
        finally:
            timer.cancel()


@asynccontextmanager
async def open_seat(database_url: str) -> AsyncIterator[LeaderSeat]:
    """A session of its own, closed at the end: that frees the lock at once."""
    milliseconds = str(round(LOST_AFTER_SECONDS * 1000))
    try:
        async with asyncio.timeout(_ANSWER_SECONDS * 3):
            conn: psycopg.AsyncConnection[TupleRow] = await psycopg.AsyncConnection.connect(
                database_url, autocommit=True, connect_timeout=5, application_name="codehub_leader"
            )
            await conn.execute(_SET_UP, [Role.CONTROLLER.value, milliseconds])
    except (psycopg.Error, TimeoutError) as error:
        raise Unavailable("The database did not answer the leader in time.") from error
    try:
        yield LeaderSeat(conn)
    finally:
        await conn.close()
