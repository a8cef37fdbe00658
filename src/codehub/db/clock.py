"""The database's clock: the only one that rules are given, so that no two machines disagree about the time."""

from datetime import datetime

from codehub.db.pool import Connection


async def now(conn: Connection) -> datetime:
    """When this transaction began."""
    row = await (await conn.execute("SELECT now()")).fetchone()
    assert row is not None
    at: datetime = row[0]
    return at
