"""NOTIFY, heard on a connection of its own.

Batches of what arrived together, in order. `None` is a gap: from before it anything may have been missed. The first
thing heard is one, and so is the first after every lost connection, which is noticed within seconds: a connection that
is silent is asked for an answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

import psycopg
from psycopg.sql import SQL, Identifier

from codehub.db.pool import Connection, hang_up
from codehub.errors import Unavailable

_CONNECT_SECONDS = 5
_GLANCE_SECONDS = 0.02  # for what is there already, or comes while we look


@dataclass(frozen=True, slots=True)
class Heard:
    """One notification."""

    channel: str
    payload: str


async def listen(
    database_url: str, channels: Collection[str], *, ping_seconds: float = 3.0
) -> AsyncGenerator[Sequence[Heard] | None, None]:
    """Until the connection is lost, which raises Unavailable: whoever called listens anew, after a pause."""
    try:
        async with await psycopg.AsyncConnection.connect(
            database_url, autocommit=True, application_name="codehub listener", connect_timeout=_CONNECT_SECONDS
        ) as conn:
            for channel in channels:
                await conn.execute(SQL("LISTEN {}").format(Identifier(channel)))
            yield None  # only now: whatever is committed from here on is heard
            while True:
                async with aclosing(conn.notifies(timeout=_GLANCE_SECONDS, stop_after=1)) as notifications:
                    batch = [Heard(each.channel, each.payload) async for each in notifications]
                if batch:
                    yield batch
                elif not await _something_came(conn, ping_seconds):
                    await _ping(conn, ping_seconds)
    except psycopg.OperationalError as error:
        raise Unavailable("The database is not listened to.", "It is tried again in a moment.") from error


async def _something_came(conn: Connection, seconds: float) -> bool:
    """Whether the server said anything in this time. psycopg itself would look ten times a second, for ever."""
    loop, came, line = asyncio.get_running_loop(), asyncio.Event(), conn.fileno()
    loop.add_reader(line, came.set)
    try:
        async with asyncio.timeout(seconds):
            return await came.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(line)


async def _ping(conn: Connection, seconds: float) -> None:
    """Raise unless the server answers in time."""
    answer = asyncio.ensure_future(conn.execute(""))
    try:
        await asyncio.wait([answer], timeout=seconds)
    finally:
        if not answer.done():
            hang_up(conn)  # a statement that is cancelled waits for the very server that does not answer
        with suppress(psycopg.Error):
            await answer
    answer.result()
