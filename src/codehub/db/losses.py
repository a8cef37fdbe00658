"""Losses that an administrator has accepted: the homes that a backend lacks are gone, and no outage.

The word holds for an hour, the moment it was given in: the next time many homes are missing, it is asked for again.
"""

from datetime import timedelta

from codehub.db.pool import Connection
from codehub.model.workspace import InstanceBackend, UserId

HOLDS = timedelta(hours=1)

_ACCEPT = """
INSERT INTO accepted_losses (backend, accepted_by) VALUES (%s, %s)
ON CONFLICT (backend) DO UPDATE SET accepted_by = excluded.accepted_by, accepted_at = now()
"""

_ACCEPTED = "SELECT backend FROM accepted_losses WHERE accepted_at > now() - %s"


async def accept(conn: Connection, backend: InstanceBackend, by: UserId) -> None:
    await conn.execute(_ACCEPT, [backend.value, by])


async def accepted(conn: Connection) -> frozenset[InstanceBackend]:
    """The backends whose losses are accepted now."""
    rows = await (await conn.execute(_ACCEPTED, [HOLDS])).fetchall()
    known = set(InstanceBackend)
    return frozenset(InstanceBackend(name) for (name,) in rows if name in known)
