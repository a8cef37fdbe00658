"""Phase: the one word a user sees for a workspace.

Derived from conditions at every observation and stored only as an index; nothing sets it by hand.
Read top to bottom: the first match wins.
"""

from datetime import datetime

from codehub.model import conditions as c
from codehub.model.conditions import Conditions
from codehub.model.workspace import ArchiveKey, Operation, Phase

LEVEL = {Phase.PENDING: 0, Phase.ARCHIVED: 5, Phase.STANDBY: 10, Phase.RUNNING: 20}

# Reasons of a false condition that say that something is, or may still be, there.
_VOLUME_LEFT = frozenset({c.RESTORE_INCOMPLETE, c.VOLUME_CONDEMNED, c.VOLUME_UNKNOWN, c.VOLUME_UNPROVEN})
_CONTAINER_LEFT = frozenset({c.CONTAINER_NOT_RUNNING})

VALID_PAIRS = frozenset(
    {(phase, Operation.NONE) for phase in Phase}
    | {
        (Phase.PENDING, Operation.PROVISIONING),
        (Phase.PENDING, Operation.CREATE_EMPTY_ARCHIVE),
        (Phase.ARCHIVED, Operation.RESTORING),
        (Phase.ARCHIVED, Operation.ARCHIVING),  # the condemned volume is going
        (Phase.STANDBY, Operation.STARTING),
        (Phase.STANDBY, Operation.ARCHIVING),
        (Phase.RUNNING, Operation.STOPPING),
        (Phase.STANDBY, Operation.STOPPING),  # an instance that died by itself
        (Phase.ARCHIVED, Operation.STOPPING),  # "any phase with an instance that exists"
        (Phase.PENDING, Operation.STOPPING),
        (Phase.DELETING, Operation.DELETING),
    }
)


def calculate_phase(seen: Conditions, deleted_at: datetime | None, archive_key: ArchiveKey | None) -> Phase:
    """The only definition of phase. Total: every combination of conditions has one."""
    if deleted_at is not None:
        return Phase.DELETING if _anything_left(seen) else Phase.DELETED
    if not seen.healthy.status:
        return Phase.ERROR
    if seen.container_ready.status and seen.volume_ready.status:
        return Phase.RUNNING
    if seen.volume_ready.status:
        return Phase.STANDBY
    if seen.archive_ready.status:
        return Phase.ARCHIVED
    if archive_key is not None and seen.archive_ready.reason not in c.TERMINAL_ARCHIVE_REASONS:
        return Phase.ARCHIVED  # an archive nobody could look at is still believed to be there
    return Phase.PENDING


def _anything_left(seen: Conditions) -> bool:
    archive = seen.archive_ready
    return is_left_on_backend(seen) or archive.status or archive.reason in c.TRANSIENT_ARCHIVE_REASONS


def is_left_on_backend(seen: Conditions) -> bool:
    """Whether an instance or a volume is there, or may be."""
    return (
        seen.volume_ready.status
        or seen.container_ready.status
        or seen.volume_ready.reason in _VOLUME_LEFT
        or seen.container_ready.reason in _CONTAINER_LEFT
    )
