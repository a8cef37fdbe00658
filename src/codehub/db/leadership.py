"""The epoch of leadership: one row that fences the writes of a leader who has been replaced.

A new leader raises the epoch before it does anything. Every controller write locks the row for sharing and names the
epoch it believes in, so it either commits before the raise or is refused.

The epoch is a time in milliseconds, not a count: a failover that lost commits takes the row back to an older epoch, and
the next leader must not be given the number that a leader of the lost time still believes in.
"""

import psycopg

from codehub.db.connecting import connect, connect_error
from codehub.db.pool import Connection

_BUMP = """
UPDATE leadership SET epoch = greatest(epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
                      holder = %s, since = now()
RETURNING epoch
"""
_NOTE_UNKNOWN = "UPDATE leadership SET unknown_resources = %s, unknown_epoch = epoch WHERE epoch = %s"


async def bump_epoch(conn: Connection, holder: str) -> int:
    """Begin a new leadership. Waits for writes of the old one that are under way."""
    row = await (await conn.execute(_BUMP, [holder])).fetchone()
    assert row is not None
    return int(row[0])


async def note_unknown(conn: Connection, epoch: int, count: int) -> None:
    """How many containers and volumes are nobody's, for those who do not lead. Whoever was replaced has no say."""
    await conn.execute(_NOTE_UNKNOWN, [count, epoch])


def holder_of(database_url: str) -> str:
    """Who leads, or has led last: `host:pid`. For commands, which have no pool."""
    try:
        with connect(database_url, as_program="codehub drill") as conn:
            row = conn.execute("SELECT holder FROM leadership").fetchone()
    except psycopg.Error as error:
        raise connect_error(database_url, error) from None
    return str(row[0]) if row is not None else ""
