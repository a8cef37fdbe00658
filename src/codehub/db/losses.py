"""Losses that an administrator has accepted: what a backend or the store lacked at that moment is gone, and no outage.

The word is read for an hour, and is about what was missing before it was given: when others are missing afterwards, it
is asked for again. Only a leader knows what was missing; whoever reads the word first notes that, for those after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from codehub.db.pool import Connection
from codehub.model.suspicion import ARCHIVES, Place
from codehub.model.workspace import InstanceBackend, UserId, WorkspaceId

READ_FOR = timedelta(hours=1)

_ACCEPT = """
INSERT INTO accepted_losses (backend, accepted_by) VALUES (%s, %s)
ON CONFLICT (backend) DO UPDATE SET accepted_by = excluded.accepted_by, accepted_at = now()
"""

_ACCEPTED = """
SELECT backend, accepted_at, CASE WHEN missing_at = accepted_at THEN missing END
FROM accepted_losses WHERE accepted_at > now() - %s
"""

_NOTE = """
UPDATE accepted_losses SET missing = %(missing)s, missing_at = accepted_at
WHERE backend = %(backend)s AND accepted_at = %(at)s AND EXISTS (SELECT FROM leadership WHERE epoch = %(epoch)s)
"""


@dataclass(frozen=True, slots=True)
class Word:
    """An administrator's, about one place."""

    at: datetime
    missing: frozenset[WorkspaceId] | None = None  # whom it is still about; None: nobody has noted it


async def accept(conn: Connection, place: Place, by: UserId) -> None:
    await conn.execute(_ACCEPT, [str(place), by])


async def accepted(conn: Connection) -> Mapping[Place, Word]:
    """The latest word on each place."""
    rows = await (await conn.execute(_ACCEPTED, [READ_FOR])).fetchall()
    known: dict[str, Place] = {ARCHIVES: ARCHIVES, **{str(name): name for name in InstanceBackend}}
    return {
        known[name]: Word(at, None if missing is None else frozenset(missing))
        for name, at, missing in rows
        if name in known
    }


async def note(conn: Connection, epoch: int, place: Place, word: Word) -> None:
    """Whom this word is about; nothing, if there is a newer one, or a newer leader."""
    missing = sorted(word.missing or ())
    await conn.execute(_NOTE, {"missing": missing, "backend": str(place), "at": word.at, "epoch": epoch})
