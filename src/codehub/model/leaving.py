"""Leaving an ARCHIVING before its archive is committed: the home is live and whole, so nothing was given up (ADR 17).

Two ways lead out. Somebody wants the workspace again: it is *abandoned*. Or the archive cannot be made: it is *put
off*, the workspace stays in STANDBY, says why, and is archived again after a pause. Either way the job goes first.
After the commit the volume is condemned, and the archive is the home. One thing leads back from there: the driver found
the volume newer than its archive, or somebody else at work in it, and left it untouched. It is *taken back*.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from codehub.model import conditions as c
from codehub.model.failure import LONGEST_PUT_OFF, Fault, is_put_off
from codehub.model.observation import Seen
from codehub.model.observe import is_live
from codehub.model.workspace import Desired, ErrorReason, Operation, Status, VolumeState, Workspace

FIRST_PAUSE = timedelta(minutes=1)
WANTED_AGAIN = frozenset({Desired.STANDBY, Desired.RUNNING})


def can_be_left(workspace: Workspace, seen: Seen) -> bool:
    """Whether an ARCHIVING is in progress that gave nothing up: its home is live, and was seen in this look."""
    status = workspace.status
    return status.operation is Operation.ARCHIVING and is_live(status.home_ctx, seen.volume)


def is_hidden(workspace: Workspace, seen: Seen) -> bool:
    """Whether an ARCHIVING may be one that can be left: only its home could not be looked at, or is not listed."""
    status, volume = workspace.status, seen.volume
    gave_nothing_up = status.operation is Operation.ARCHIVING and status.home_ctx.volume is VolumeState.LIVE
    return gave_nothing_up and (volume is None or (not volume.exists and not volume.confirmed))


def is_abandoned(workspace: Workspace, seen: Seen) -> bool:
    """Whether the ARCHIVING in progress is no longer wanted, and can be left."""
    wish = workspace.wish
    wanted = wish.deleted_at is None and wish.desired_state in WANTED_AGAIN
    return wanted and can_be_left(workspace, seen)


def abandoned(status: Status) -> Status:
    """The status without its ARCHIVING; op_id stays, for GC's protection."""
    return replace(
        status, operation=Operation.NONE, op_started_at=None, error_reason=None, error_count=0, retry_at=None
    )


def put_off(workspace: Workspace, fault: Fault, now: datetime) -> Status:
    """The status after an ARCHIVING that failed: a warning, and a pause that grows with every failed attempt."""
    status = workspace.status
    uncounted = fault.reason is ErrorReason.TIMEOUT and status.error_reason is not ErrorReason.TIMEOUT
    count = max(status.error_count + uncounted, 1)
    healthy = status.conditions.healthy.seen_as(True, c.ARCHIVE_FAILED, _told(workspace, fault), now)
    return replace(
        status,
        conditions=status.conditions.with_health(healthy),
        operation=Operation.NONE,
        op_started_at=None,
        error_reason=ErrorReason.ACTION_FAILED,
        error_count=count,
        retry_at=now + pause_after(count),
    )


def is_committed(status: Status) -> bool:
    """Whether an ARCHIVING is in progress of which only the removal of the volume is left."""
    return status.operation is Operation.ARCHIVING and status.home_ctx.volume is VolumeState.CONDEMNED


def was_kept(workspace: Workspace, seen: Seen) -> bool:
    """Whether the volume that an ARCHIVING condemned is still a whole home, and more than what is in the archive."""
    status, volume = workspace.status, seen.volume
    if status.operation is not Operation.ARCHIVING or status.home_ctx.volume is not VolumeState.CONDEMNED:
        return False
    return volume is not None and bool(volume.kept) and volume.whole and is_live(_relied_on(status).home_ctx, volume)


def taken_back(workspace: Workspace, seen: Seen, now: datetime) -> Status:
    """The status with that volume as the home again; its archive stays the one to go back to."""
    assert seen.volume is not None
    workspace = replace(workspace, status=_relied_on(workspace.status))
    return put_off(workspace, Fault(ErrorReason.ACTION_FAILED, seen.volume.kept), now)


def _relied_on(status: Status) -> Status:
    return replace(status, home_ctx=replace(status.home_ctx, volume=VolumeState.LIVE, removal_asked=False))


def pause_after(attempts: int) -> timedelta:
    """Before the next ARCHIVING, after that many failed attempts in a row: 1, 2, 4 … minutes, at most six hours."""
    doublings = min(max(attempts - 1, 0), 20)  # far beyond the longest pause, and no overflow
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PUT_OFF)


def unless_wanted_again(workspace: Workspace) -> Status:
    """The status; an ARCHIVING that was put off is forgotten once nobody asks for it, its pause included."""
    status, wish = workspace.status, workspace.wish
    asked_for = wish.deleted_at is None and wish.desired_state not in WANTED_AGAIN
    if not is_put_off(status) or asked_for:
        return status
    return replace(status, error_reason=None, error_count=0, retry_at=None)


def _told(workspace: Workspace, fault: Fault) -> str:
    cause = fault.message.strip() or "The reason is not known."
    cause = cause if cause.endswith((".", "!", "?")) else f"{cause}."
    if workspace.wish.desired_state is Desired.DELETED:
        further = "The deletion waits for the archive. To delete without one, delete again and confirm, or undelete."
    else:
        further = "Archiving is retried automatically."
    return f"The home could not be archived: {cause} All files are in place and the workspace can be started. {further}"
