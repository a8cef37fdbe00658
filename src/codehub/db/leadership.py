"""The epoch of leadership: one row that fences the writes of a leader who has been replaced.

A new leader raises the epoch before it does anything. Every controller write locks the row for sharing and names the
epoch it believes in, so it either commits before the raise or is refused.
"""

from codehub.db.pool import Connection

_BUMP = "UPDATE leadership SET epoch = epoch + 1, holder = %s, since = now() RETURNING epoch"
_CURRENT = "SELECT epoch FROM leadership"


async def bump_epoch(conn: Connection, holder: str) -> int:
    """Begin a new leadership. Waits for writes of the old one that are under way."""
    return await _one(conn, _BUMP, [holder])


async def current_epoch(conn: Connection) -> int:
    return await _one(conn, _CURRENT, [])


async def _one(conn: Connection, statement: str, arguments: list[str]) -> int:
    row = await (await conn.execute(statement, arguments)).fetchone()
    assert row is not None
    return int(row[0])
