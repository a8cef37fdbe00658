"""Losses that an administrator has accepted: the homes that a backend lacked at that moment are gone, and no outage.

The word is read for an hour, and is about what was missing before it was given: when others are missing afterwards, it
is asked for again.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from codehub.db.pool import Connection
from codehub.model.workspace import InstanceBackend, UserId

READ_FOR = timedelta(hours=1)

_ACCEPT = """
INSERT INTO accepted_losses (backend, accepted_by) VALUES (%s, %s)
ON CONFLICT (backend) DO UPDATE SET accepted_by = excluded.accepted_by, accepted_at = now()
"""

_ACCEPTED = "SELECT backend, accepted_at FROM accepted_losses WHERE accepted_at > now() - %s"


async def accept(conn: Connection, backend: InstanceBackend, by: UserId) -> None:
    await conn.execute(_ACCEPT, [backend.value, by])


async def accepted(conn: Connection) -> Mapping[InstanceBackend, datetime]:
    """When the losses of each backend were accepted."""
    rows = await (await conn.execute(_ACCEPTED, [READ_FOR])).fetchall()
    known = set(InstanceBackend)
    return {InstanceBackend(name): at for name, at in rows if name in known}
