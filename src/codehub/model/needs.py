"""Which look at the archive store a workspace needs now.

Archives are looked at by need, never all at every tick. Verifying reads a whole archive back, so it is asked for only
where a rule relies on it: before archive_key is committed and before a volume is deleted.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from codehub.model import conditions as c
from codehub.model.failure import is_waiting
from codehub.model.leaving import is_abandoned
from codehub.model.names import archive_key
from codehub.model.observation import JobSeen, JobState, Seen
from codehub.model.recovery import is_pending
from codehub.model.workspace import Operation, Phase, VolumeState, Workspace

_UNSETTLED = c.TRANSIENT_ARCHIVE_REASONS | c.TERMINAL_ARCHIVE_REASONS | {c.NOT_OBSERVED}


class Depth(Enum):
    """How closely to look."""

    LOOK = auto()  # are object and meta there, and do they fit
    VERIFY = auto()  # … and is every byte what the meta says


@dataclass(frozen=True, slots=True)
class Need:
    """What to look at; `waits`: nothing can be decided without it, so nothing is until it is there."""

    archive: Depth | None = None  # of the committed archive_key
    op_archive: Depth | None = None  # of the key that the current op_id would have
    waits: bool = False

    @property
    def is_none(self) -> bool:
        return self.archive is None and self.op_archive is None

    @property
    def is_waited_for(self) -> bool:
        return self.waits and not self.is_none


NOTHING = Need()


def archive_need(workspace: Workspace, seen: Seen, now: datetime, *, suspected: bool = False) -> Need:
    """What `seen` (everything but the archives) leaves to be looked at; `suspected`: somebody doubts it is there."""
    status = workspace.status
    if seen.jobs is None or seen.volume is None or seen.instance is None:
        return NOTHING  # nothing is decided about it anyway
    if status.operation is not Operation.NONE and is_waiting(status, now):
        return NOTHING  # the next attempt looks
    job = seen.job(status.op_id)
    match status.operation:
        case Operation.ARCHIVING if status.home_ctx.volume is VolumeState.CONDEMNED:
            if job is not None:
                return NOTHING  # it goes first
            return Need(archive=Depth.VERIFY if seen.volume.exists else Depth.LOOK, waits=True)
        case Operation.ARCHIVING if is_abandoned(workspace, seen):
            return NOTHING  # whatever became of the archive, nobody waits for it
        case Operation.ARCHIVING:
            return _archiving(job, volume_exists=seen.volume.exists)
        case Operation.CREATE_EMPTY_ARCHIVE:
            committed = status.op_id is not None and status.archive_key == archive_key(workspace.id, status.op_id)
            return Need(archive=Depth.LOOK, waits=True) if committed else Need(op_archive=Depth.VERIFY, waits=True)
        case Operation.RESTORING:
            return _restoring(workspace, seen, job)
        case _:
            return _at_rest(workspace, suspected=suspected)


def _archiving(job: JobSeen | None, *, volume_exists: bool) -> Need:
    if job is None:
        # Without the volume no job can be started: only a verified archive of this very operation can save the home.
        return Need(op_archive=Depth.LOOK if volume_exists else Depth.VERIFY, waits=True)
    if job.state is JobState.SUCCEEDED:
        return Need(op_archive=Depth.VERIFY, waits=True)
    if not volume_exists and job.state is JobState.FAILED:
        return Need(op_archive=Depth.VERIFY, waits=True)
    return NOTHING


def _restoring(workspace: Workspace, seen: Seen, job: JobSeen | None) -> Need:
    home, volume = workspace.status.home_ctx, seen.volume
    assert volume is not None
    restored = volume.whole and volume.incarnation == home.incarnation
    if job is not None or restored or not volume.exists or home.restore_marker == workspace.status.archive_key:
        return NOTHING
    if volume.incarnation != home.incarnation:
        return Need(archive=Depth.VERIFY, waits=True)  # an old volume is in the way, and is about to be removed
    return Need(archive=Depth.LOOK, waits=True)


def _at_rest(workspace: Workspace, *, suspected: bool) -> Need:
    status = workspace.status
    if status.archive_key is None:
        return NOTHING
    if is_pending(workspace):
        return Need(archive=Depth.LOOK, waits=True)
    in_trash = workspace.wish.deleted_at is not None and status.phase is Phase.DELETING
    if suspected or in_trash or status.conditions.archive_ready.reason in _UNSETTLED:
        return Need(archive=Depth.LOOK)
    return NOTHING
