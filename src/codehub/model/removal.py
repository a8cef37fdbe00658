"""What a deleted workspace still waits for until nothing is left of it, as people are told."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from codehub.model import conditions as c
from codehub.model.phase import is_left_on_backend
from codehub.model.wishes import undelete_until
from codehub.model.workspace import Operation, Phase, Workspace

PURGE_TAKES = timedelta(minutes=1)


class RemovalReason(StrEnum):
    """Why something of it is still there."""

    TRASH = "trash"  # it can be undeleted
    BACKEND = "backend"  # its instance or volume is being removed
    ARCHIVE = "archive"  # its archive is being removed
    STORE = "store"  # … when the store answers again
    UNREMEMBERED = "unremembered"  # the database did not make this archive: an administrator decides


@dataclass(frozen=True, slots=True)
class Removal:
    """`at` is when it goes on by itself, as far as that is known."""

    reason: RemovalReason
    at: datetime | None


def removal_of(workspace: Workspace, retention: timedelta, *, is_remembered: bool) -> Removal | None:
    """None for what is not deleted, or completely gone. `is_remembered`: its archive is one that the database made."""
    wish, status = workspace.wish, workspace.status
    if wish.deleted_at is None or status.phase is Phase.DELETED:
        return None
    if (until := undelete_until(workspace, retention)) is not None:
        return Removal(RemovalReason.TRASH, until)
    if status.operation is not Operation.NONE or is_left_on_backend(status.conditions):
        return Removal(RemovalReason.BACKEND, status.retry_at)
    if status.conditions.archive_ready.reason in c.TRANSIENT_ARCHIVE_REASONS:
        return Removal(RemovalReason.STORE, None)
    if wish.purged_at is None:
        return Removal(RemovalReason.ARCHIVE, None)
    if not is_remembered:
        return Removal(RemovalReason.UNREMEMBERED, None)
    return Removal(RemovalReason.ARCHIVE, wish.purged_at + PURGE_TAKES)
