"""Samples of how many workspaces are in each phase: the controller takes them, figures.py reads them."""

from datetime import timedelta

from codehub.db.pool import Connection

_TAKE = """
INSERT INTO samples (at, running, standby, archived, pending, error)
SELECT now(), count(*) FILTER (WHERE phase = 'RUNNING'), count(*) FILTER (WHERE phase = 'STANDBY'),
       count(*) FILTER (WHERE phase = 'ARCHIVED'), count(*) FILTER (WHERE phase = 'PENDING'),
       count(*) FILTER (WHERE phase = 'ERROR')
FROM workspaces WHERE deleted_at IS NULL
ON CONFLICT (at) DO NOTHING
"""

_FORGET = "DELETE FROM samples WHERE at < now() - %s::interval"


async def take(conn: Connection, retention: timedelta) -> None:
    """Count now; forget what is older than `retention`."""
    await conn.execute(_TAKE)
    await conn.execute(_FORGET, [retention])
