"""Who may delete from an archive store: the one installation whose marker lies in it (ADR 25).

A clone of a machine, or a backup restored on a second one, names the same archives and goes ways of its own: what one
of them calls an orphan is the other one's home. So whoever leads leaves a new token in the store from time to time, and
remembers it in its database. A marker with a token that the database does not remember is somebody else's.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMarker:
    """What lies beside the archives."""

    token: UUID
    database: str | None  # its name among all databases (db/lost_commits.py); None is not known
    holder: str  # who wrote it, for people
    commits: int  # how many the database had by then: it must not have fewer later
    written_at: datetime
    is_disputed: bool = False  # somebody met it who had been the store's owner too


@dataclass(frozen=True, slots=True)
class StoreClaim:
    """What a database remembers of its own markers."""

    tokens: Collection[UUID]
    database: str | None


class Ownership(Enum):
    FREE = auto()  # nobody has marked the store
    OURS = auto()
    OTHERS = auto()
    DISPUTED = auto()  # it was ours, until somebody else said so as well


def ownership(marker: StoreMarker | None, claim: StoreClaim) -> Ownership:
    if marker is None:
        return Ownership.FREE
    if marker.token not in claim.tokens or _is_of_another_database(marker, claim):
        return Ownership.OTHERS
    return Ownership.DISPUTED if marker.is_disputed else Ownership.OURS


def is_to_be_disputed(marker: StoreMarker, claim: StoreClaim) -> bool:
    """Whether nobody can tell which of the two is the owner, so that neither may delete.

    A database that never owned the store, or is known to be another one, is a newcomer, and has no say.
    """
    is_theirs = ownership(marker, claim) is Ownership.OTHERS and not _is_of_another_database(marker, claim)
    return is_theirs and bool(claim.tokens) and not marker.is_disputed


def refusal(marker: StoreMarker | None, claim: StoreClaim) -> str | None:
    """Why nothing may be deleted, for people."""
    whose = ownership(marker, claim)
    if marker is None or whose in (Ownership.FREE, Ownership.OURS):
        return None
    by = f"The archive store is marked by another installation ({marker.holder}, {marker.written_at:%F %H:%M} UTC)."
    if whose is Ownership.DISPUTED:
        by = "Two installations use this archive store and each takes it for its own."
    return f"{by} Nothing is deleted until an administrator decides: codehub take-over"


def _is_of_another_database(marker: StoreMarker, claim: StoreClaim) -> bool:
    return None not in (marker.database, claim.database) and marker.database != claim.database
