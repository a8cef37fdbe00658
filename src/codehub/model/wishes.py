"""What may be wished for, and what each wish changes.

Each function takes a workspace and returns the new `Wish`, or a `Refusal` that says why not and what to do.
Everything here is written by the service layer with a compare-and-set on what was read.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from codehub.model import conditions as c
from codehub.model import recovery
from codehub.model.failure import is_put_off
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    Operation,
    Phase,
    RecoverRequest,
    Status,
    VolumeState,
    Wish,
    Workspace,
)

LONGEST_AWAKE = timedelta(hours=24)
NEEDS_CONFIRMATION = "needs_confirmation"


class RefusedBecause(Enum):
    """Which kind of no it is; the API maps it to a status code."""

    CONFLICT = 409  # not now, or not from this state
    GONE = 410  # not any more


@dataclass(frozen=True, slots=True)
class Refusal:
    """A no, with a sentence for the person who asked."""

    because: RefusedBecause
    message: str
    code: str | None = None  # for programs, where it is not just any conflict


def _conflict(message: str) -> Refusal:
    return Refusal(RefusedBecause.CONFLICT, message)


def _in_progress(status: Status) -> Refusal:
    return _conflict(f"{status.operation} is in progress. Try again when it has ended.")


def request_state(
    workspace: Workspace, desired: Desired, now: datetime, safe_mode: bool | None = None
) -> Wish | Refusal:
    """Ask for RUNNING, STANDBY or ARCHIVED, while no operation runs. Asking again for the same is fine.

    An ARCHIVING stands in nobody's way: before its commit it is abandoned, after that the home is restored (ADR 17).
    """
    status = workspace.status
    if desired is Desired.DELETED:
        return _conflict("A workspace is deleted with DELETE, not by its desired_state.")
    if is_going(workspace):
        return _conflict("The workspace is being deleted. Undelete it first.")
    if status.operation not in (Operation.NONE, Operation.ARCHIVING):
        return _in_progress(status)
    if status.phase is Phase.ERROR:
        return _conflict("The workspace is in ERROR. Recover it first.")
    return _wanting(workspace, workspace.wish, desired, now, safe_mode)


def _wanting(
    workspace: Workspace, wish: Wish, desired: Desired, now: datetime | None, safe_mode: bool | None
) -> Wish | Refusal:
    """The wish with this state. Safe mode lasts until the next start that does not ask for it.

    One that begins by itself, after a crash for example, is no such start. What runs is not changed.
    """
    if desired is not Desired.RUNNING:
        return replace(wish, desired_state=desired)
    status = workspace.status
    runs = status.phase is Phase.RUNNING or status.conditions.container_ready.status  # which may be so in ERROR
    if runs and safe_mode is not None and safe_mode != wish.safe_mode:
        return _conflict("The workspace is running. Stop it first: safe mode is chosen when it starts.")
    if safe_mode is None:
        safe_mode = wish.safe_mode and (runs or wish.desired_state is Desired.RUNNING)
    accessed = wish.last_access_at if now is None else max(now, wish.last_access_at or now)  # starting counts as access
    return replace(wish, desired_state=desired, last_access_at=accessed, safe_mode=safe_mode)


def is_going(workspace: Workspace) -> bool:
    """Whether it is to be deleted: then nothing but undelete changes what is wanted of it."""
    return workspace.wish.deleted_at is not None or workspace.wish.desired_state is Desired.DELETED


def edit(workspace: Workspace) -> Refusal | None:
    """Whether names, notes, image and TTLs may be changed: at any time, operations included, but in the trash."""
    return _conflict("The workspace is being deleted. Undelete it first.") if is_going(workspace) else None


def keep_awake(workspace: Workspace, now: datetime, lasting: timedelta) -> Wish | Refusal:
    """Keep it from being stopped for being idle, for at most a day from now; no time at all ends that."""
    if is_going(workspace):
        return _conflict("The workspace is being deleted. Undelete it first.")
    until = now + min(lasting, LONGEST_AWAKE) if lasting > timedelta(0) else None
    return replace(workspace.wish, keep_awake_until=until)


def recover(
    workspace: Workspace,
    request: RecoverRequest,
    desired: Desired | None = None,
    now: datetime | None = None,
    safe_mode: bool | None = None,
) -> Wish | Refusal:
    """Answer the error that the workspace is in, and say what is wanted of it afterwards; else that stays as it was.

    A later answer replaces one that was not honoured yet.
    """
    wish, status = workspace.wish, workspace.status
    if wish.deleted_at is not None:
        return _conflict("The workspace is deleted. Undelete it first.")
    if status.operation is not Operation.NONE:
        return _in_progress(status)
    if status.phase is not Phase.ERROR:
        return _conflict("The workspace is not in ERROR: there is nothing to recover from.")
    refused = recovery.is_refused(status, request.source, forced=request.forced)
    if refused is not None:
        return _conflict(refused)
    answered = replace(wish, recover_request=replace(request, answers=status.error_reason))
    if desired is None:
        return answered
    if is_going(workspace) or desired is Desired.DELETED:
        return _conflict("The workspace is being deleted. Undelete it first.")
    return _wanting(workspace, answered, desired, now, safe_mode)


def archive_to_copy(workspace: Workspace, now: datetime, retention: timedelta) -> ArchiveKey | Refusal:
    """The archive that a new workspace can be made from, or that is downloaded: the newest one, while it is kept."""
    wish, status = workspace.wish, workspace.status
    if (gone := archives_gone(workspace, now, retention)) is not None:
        return gone
    if status.archive_key is None and wish.deleted_at is not None:
        return Refusal(RefusedBecause.GONE, "That workspace was deleted without an archive.")
    if status.archive_key is None:
        return _conflict("That workspace has no archive yet. Archive it first.")
    if status.conditions.archive_ready.reason in c.TERMINAL_ARCHIVE_REASONS:
        return _conflict("The archive of that workspace is lost or damaged.")
    return status.archive_key


def archives_gone(workspace: Workspace, now: datetime, retention: timedelta) -> Refusal | None:
    """Whether nothing that was archived of it is its owner's any more."""
    wish = workspace.wish
    if wish.purged_at is not None:
        return Refusal(RefusedBecause.GONE, "That workspace was purged: nothing of it was kept.")
    if wish.deleted_at is not None and now > wish.deleted_at + retention:
        return Refusal(RefusedBecause.GONE, "That workspace was deleted too long ago: its archive is no longer kept.")
    return None


def takes_a_place(was: Workspace, wish: Wish) -> bool:
    """Whether this wish makes one more workspace run: then limits apply (model/limits.py)."""
    if wish.desired_state is not Desired.RUNNING or wish.deleted_at is not None:
        return False
    answered = wish.recover_request != was.wish.recover_request  # it is about to leave ERROR
    return was.wish.desired_state is not Desired.RUNNING or answered


def delete(workspace: Workspace, now: datetime, *, purge: bool = False, confirmed: bool = False) -> Wish | Refusal:
    """Delete. With a home on a volume the workspace is archived first; a purge keeps nothing.

    From ERROR nothing can be archived, nor may that succeed where it has just failed: what is on the volume is lost,
    and whoever asks is told so first.
    """
    wish, status = workspace.wish, workspace.status
    if status.operation is not Operation.NONE:
        return _in_progress(status)
    deleted = replace(wish, desired_state=Desired.DELETED)
    if purge:
        return replace(deleted, deleted_at=wish.deleted_at or now, purged_at=wish.purged_at or now)
    unarchivable = is_put_off(status)
    if wish.deleted_at is not None or (status.phase in (Phase.RUNNING, Phase.STANDBY) and not unarchivable):
        return deleted
    if (status.phase is Phase.ERROR or unarchivable) and not confirmed and _may_have_a_home(workspace):
        kept = "what its last archive holds is kept" if _has_archive(workspace) else "there is no archive of it"
        if unarchivable:
            why, instead = "The home could not be archived", "Wait for the next attempt"
        else:
            why, instead = "The workspace is in ERROR and cannot be archived", "Recover it first"
        return Refusal(
            RefusedBecause.CONFLICT,
            f"{why}: the home on its volume would be lost, {kept}. {instead}, or confirm the deletion.",
            NEEDS_CONFIRMATION,
        )
    return replace(deleted, deleted_at=now)


def _may_have_a_home(workspace: Workspace) -> bool:
    home, conditions = workspace.status.home_ctx, workspace.status.conditions
    condemned = home.volume is VolumeState.CONDEMNED and not home.removal_asked  # whole, as long as it is there
    here = condemned and conditions.volume_ready.reason == c.VOLUME_CONDEMNED
    return conditions.volume_ready.status or here or _has_unknown_volume(workspace)


def _has_unknown_volume(workspace: Workspace) -> bool:
    """One that stays whatever becomes of the workspace, as of one that was undeleted since the database's backup."""
    return workspace.status.conditions.volume_ready.reason in (c.VOLUME_UNKNOWN, c.VOLUME_UNPROVEN)


def is_ready_to_delete(workspace: Workspace) -> bool:
    """Whether a workspace that stepped down for its deletion has arrived: the coordinator now sets deleted_at.

    PENDING is where a recovery from a blank home may have left it: there is nothing to keep. ARCHIVED is enough only
    without a volume: one that is left over goes by ARCHIVING's last step, which verifies the archive first.
    """
    wish, status = workspace.wish, workspace.status
    arrived = status.phase in (Phase.ARCHIVED, Phase.PENDING) and status.operation is Operation.NONE
    left_over = status.phase is Phase.ARCHIVED and status.conditions.volume_ready.reason != c.VOLUME_NOT_FOUND
    arrived = arrived and not left_over
    return arrived and wish.desired_state is Desired.DELETED and wish.deleted_at is None


def undelete(workspace: Workspace, now: datetime, retention: timedelta) -> Wish | Refusal:
    """Take a deletion back: before deleted_at is set always, afterwards while the archive is kept."""
    wish, status = workspace.wish, workspace.status
    if wish.desired_state is not Desired.DELETED:
        return _conflict("The workspace is not deleted.")
    stepping_down = status.operation is Operation.ARCHIVING and wish.deleted_at is None
    if status.operation is not Operation.NONE and not stepping_down:
        return _in_progress(status)
    kept = replace(wish, desired_state=Desired.ARCHIVED, deleted_at=None)
    if wish.deleted_at is None:
        return kept
    if wish.purged_at is not None:
        return Refusal(RefusedBecause.GONE, "The workspace was purged: nothing of it was kept.")
    if now > wish.deleted_at + retention:
        return Refusal(RefusedBecause.GONE, "The workspace was deleted too long ago: its archive is no longer kept.")
    if not _has_archive(workspace) and not _has_unknown_volume(workspace):
        return Refusal(RefusedBecause.GONE, "There is no archive to bring the workspace back from.")
    gone = status.conditions.volume_ready.reason == c.VOLUME_NOT_FOUND and status.home_ctx.volume is VolumeState.NONE
    stays = _has_unknown_volume(workspace)  # its owner decides about it once the workspace is back
    if not (gone or stays) or status.conditions.container_ready.reason != c.CONTAINER_NOT_FOUND:
        return _conflict("What was running is still being removed. Try again in a moment.")
    return kept


def undelete_until(workspace: Workspace, retention: timedelta) -> datetime | None:
    """Until when a deletion can be taken back; None for what is not deleted, or cannot come back."""
    wish, status = workspace.wish, workspace.status
    if wish.deleted_at is None or wish.purged_at is not None:
        return None
    if not _has_archive(workspace) and not _has_unknown_volume(workspace):
        return None
    return None if status.phase is Phase.DELETED else wish.deleted_at + retention


def _has_archive(workspace: Workspace) -> bool:
    status = workspace.status
    return status.archive_key is not None and (status.conditions.archive_ready.reason not in c.TERMINAL_ARCHIVE_REASONS)
