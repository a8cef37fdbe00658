"""Cursors: where a page ends, as text that means nothing to anybody else. One that is not ours is refused."""

import base64
import binascii
from datetime import datetime
from uuid import UUID

from codehub.errors import Invalid

_LONGEST_NUMBER = 2**63 - 1


def cursor_of(at: datetime, identity: UUID | int) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{identity}".encode()).decode().rstrip("=")


def place_of(cursor: str) -> tuple[datetime, UUID]:
    """The time and the id of the last thing that was shown."""
    at, identity = _parts(cursor)
    try:
        return at, UUID(identity)
    except ValueError as error:
        raise _not_ours() from error


def numbered_place_of(cursor: str) -> tuple[datetime, int]:
    """The same for what has numbers."""
    at, identity = _parts(cursor)
    if not (identity.isascii() and identity.isdigit() and int(identity) <= _LONGEST_NUMBER):
        raise _not_ours()
    return at, int(identity)


def _parts(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        at, _, identity = text.partition("|")
        found = datetime.fromisoformat(at)
    except (ValueError, binascii.Error) as error:
        raise _not_ours() from error
    if found.tzinfo is None:
        raise _not_ours()
    return found, identity


def _not_ours() -> Invalid:
    return Invalid("cursor: this is not where a page of this list ends.", "Begin again without a cursor.")
