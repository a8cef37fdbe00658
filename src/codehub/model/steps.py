"""The next single act of the operation in progress.

Given what was seen, each operation is a ladder: the first rung that does not hold says what to do now. Because the
ladder starts from the observation each time, it does not matter where an earlier attempt, leader or process died.

Order of destruction: an instance goes before its volume; a volume goes only when its incarnation is one this row made
and has moved on from, and (but for a deletion that was asked for) the committed archive was verified in this look.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from codehub.model import actions as a
from codehub.model.actions import Action
from codehub.model.conditions import without_adoption
from codehub.model.failure import Fault, after_failure
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.observation import ArchiveSeen, JobSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.observe import is_asked_for, is_leftover, is_live, lacks_mark
from codehub.model.suspicion import is_absence_unsure
from codehub.model.workspace import (
    ArchiveKey,
    ErrorReason,
    HomeContext,
    Operation,
    OpId,
    Status,
    VolumeState,
    Workspace,
)


@dataclass(frozen=True, slots=True)
class Act:
    """Ask a driver or the store for this."""

    action: Action
    why: str


@dataclass(frozen=True, slots=True)
class Change:
    """Commit this status first; the next look decides how to go on."""

    status: Status
    why: str
    action: Action | None = None  # safe whatever the status: taken once it is committed


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do but look again."""

    why: str


Step = Act | Change | Wait | Fault

_COMPLETE = (ArchiveSeen.LISTED, ArchiveSeen.VERIFIED)
_JOB_VANISHED = "The archive job was gone before its archive was verified."
_CANNOT_LOOK = Wait("what is there could not be looked at")


def next_step(workspace: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId) -> Step:
    """What the operation in progress does now. `fresh_op_id` is used only where an operation must begin again."""
    if seen.jobs is None or seen.instance is None:
        return _CANNOT_LOOK
    status = workspace.status
    other = seen.other_job(status.op_id)
    if other is not None:
        return Act(a.RemoveJob(other.op_id), "a job of an earlier operation must be gone first")
    match status.operation:
        case Operation.STARTING:
            return _starting(workspace, seen)
        case Operation.STOPPING:
            return Act(a.RemoveInstance(), "the container is stopped")
        case Operation.PROVISIONING:
            return _without_instance(seen) or _provisioning(workspace, seen)
        case Operation.RESTORING:
            return _without_instance(seen) or _restoring(workspace, seen, now, fresh_op_id)
        case Operation.ARCHIVING if status.home_ctx.volume is VolumeState.CONDEMNED:
            return _without_instance(seen) or _remove_archived(workspace, seen)
        case Operation.ARCHIVING:
            return _archiving(workspace, seen, now, fresh_op_id)
        case Operation.CREATE_EMPTY_ARCHIVE:
            return _without_instance(seen) or _making_archive(workspace, seen, now, fresh_op_id)
        case Operation.DELETING:
            return _deleting(workspace, seen)
        case Operation.NONE:
            return Wait("nothing is in progress")


def _without_instance(seen: Seen) -> Step | None:
    if seen.instance is not None and seen.instance.exists:
        return Act(a.RemoveInstance(), "no container may run while its home is moved")
    return None


def _starting(workspace: Workspace, seen: Seen) -> Step:
    status = workspace.status
    assert status.op_id is not None
    assert seen.instance is not None
    if seen.instance.exists and not is_asked_for(status.home_ctx, seen.instance):
        return Act(a.RemoveInstance(), "a container of an earlier start is in the way")
    if seen.volume is None or not is_live(status.home_ctx, seen.volume):
        return _CANNOT_LOOK
    if seen.instance.life is Life.ALIVE:
        return Wait("the container is getting ready")
    if lacks_mark(seen.volume):
        return Act(a.MarkWhole(seen.volume.ref), "its home is marked as whole before anybody works in it")
    wish = workspace.wish
    start = a.StartInstance(status.op_id, wish.image_ref, seen.volume.ref, wish.safe_mode)
    return Act(start, "the container is started")


def _provisioning(workspace: Workspace, seen: Seen) -> Step:
    """Completion covers the case that this operation's volume is there."""
    home = workspace.status.home_ctx
    if seen.volume is None:
        return _CANNOT_LOOK
    if seen.volume.exists:
        return _clear_the_place(home, seen)
    assert home.incarnation is not None
    return Act(a.CreateVolume(home.incarnation), "a blank home is made")


def _restoring(workspace: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId) -> Step:
    status = workspace.status
    home, op_id, key = status.home_ctx, status.op_id, status.archive_key
    assert op_id is not None
    if seen.volume is None or key is None or home.incarnation is None:
        return _CANNOT_LOOK
    job = seen.job(op_id)
    if is_absence_unsure(workspace, seen):
        return Wait("whether its volume is there must be looked at directly first")
    if _restored_elsewhere(home, job, seen.volume):
        # What the job did went with its volume: that result must never complete a later one.
        again = replace(_begun_again(status, now, fresh_op_id), home_ctx=home.draw(fresh_op_id, VolumeState.RESTORING))
        return Change(again, "the volume vanished under the restore, which begins again")
    if not seen.volume.exists:
        return Act(a.CreateVolume(home.incarnation), "a volume for the restore is made")
    if seen.volume.incarnation != home.incarnation:
        if seen.archive is not ArchiveSeen.VERIFIED:
            return Wait("the archive must be verified before an old volume is removed")
        return _clear_the_place(home, seen)
    if home.restore_marker == key:
        return Act(a.RemoveJob(op_id), "the restore is done") if job else Wait("the restore is done")
    if job is None and seen.volume.whole:
        # The database forgot that this restore had ended, and somebody may have worked in the home since.
        home = replace(home, restore_marker=key, uid=seen.volume.uid)
        return Change(replace(status, home_ctx=home), "its home is whole already")
    if job is None and seen.store_out:
        return Wait("the archive store is out")
    if job is None:
        return Act(a.StartRestoreJob(op_id, key, seen.volume.ref), "the archive is unpacked")
    return _restore_result(status, job, key)


def _restored_elsewhere(home: HomeContext, job: JobSeen | None, volume: VolumeSeen) -> bool:
    """Whether this operation's job worked on a volume that is no longer the one there."""
    if job is not None and (not volume.exists or job.volume_uid != volume.uid):
        return True
    return home.restore_marker is not None and (not volume.exists or home.uid != volume.uid)


def _restore_result(status: Status, job: JobSeen, key: ArchiveKey) -> Step:
    match job.state:
        case JobState.RUNNING:
            return Wait("the archive is being unpacked")
        case JobState.SUCCEEDED if job.restore_marker == key:
            home = replace(status.home_ctx, restore_marker=key, uid=job.volume_uid)
            return Change(replace(status, home_ctx=home), "the archive is unpacked")
        case JobState.SUCCEEDED:
            return Fault(ErrorReason.ACTION_FAILED, "The restore job ended without saying what it restored.")
        case JobState.FAILED:
            return Fault(job.error, job.message)


def _archiving(workspace: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId) -> Step:
    """Until the archive is committed: the volume is live and nothing of it is touched."""
    status = workspace.status
    home, op_id = status.home_ctx, status.op_id
    assert op_id is not None
    assert seen.instance is not None
    job = seen.job(op_id)
    if seen.instance.exists:
        # It may have written after the archive was made: that archive no longer counts.
        if job is not None or seen.op_archive is not ArchiveSeen.MISSING:
            anew = _begun_again(status, now, fresh_op_id)
            return Change(anew, "a container appeared: the archive is made anew", a.RemoveInstance())
        return Act(a.RemoveInstance(), "no container may run while its home is archived")
    if job is not None and job.in_use:
        # What was written after the job read it is in no archive: nothing made under this op_id may be committed.
        failed = after_failure(workspace, Fault(ErrorReason.ACTION_FAILED, job.in_use), now)
        return Change(_begun_again(failed, now, fresh_op_id), "somebody else has the home open: it is archived anew")
    if job is not None and job.state is JobState.RUNNING:
        return Wait("the home is being archived")
    if job is None and seen.op_archive in _COMPLETE and is_live(home, seen.volume):
        # A database that lost commits may have forgotten that this ended, and what was written since is not in it.
        # Counted: what removes jobs that have ended would have the home archived for ever.
        failed = after_failure(workspace, Fault(ErrorReason.ACTION_FAILED, _JOB_VANISHED), now)
        anew = _begun_again(failed, now, fresh_op_id)
        return Change(anew, "who made its archive is not known any more: the home is archived anew")
    if seen.op_archive is ArchiveSeen.VERIFIED:
        return Change(_committed(workspace, op_id), "the archive is complete and verified")
    if job is None and seen.op_archive in (ArchiveSeen.MISSING, ArchiveSeen.LISTED):
        if seen.volume is None or not is_live(home, seen.volume):
            return _CANNOT_LOOK
        return Act(a.StartArchiveJob(op_id, seen.volume.ref), "the home is archived")
    if job is not None and job.state is JobState.FAILED:
        return Fault(job.error, job.message)
    if seen.op_archive in (ArchiveSeen.MISSING, ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED):
        return _made_anew(workspace, now, fresh_op_id)
    return Wait("the archive could not be verified yet")


def _begun_again(status: Status, now: datetime, fresh_op_id: OpId) -> Status:
    """The same operation under a new op_id: nothing made under the old one can complete it."""
    return replace(status, op_id=fresh_op_id, op_started_at=now)


def _made_anew(workspace: Workspace, now: datetime, fresh_op_id: OpId) -> Step:
    """The job said it succeeded and the store says otherwise: a failure, counted, and a new key for the next try."""
    fault = Fault(ErrorReason.ACTION_FAILED, "The new archive did not pass verification.")
    failed = after_failure(workspace, fault, now)
    return Change(_begun_again(failed, now, fresh_op_id), "the archive failed verification and is made anew")


def _committed(workspace: Workspace, op_id: OpId) -> Status:
    """The commit: from here on the archive is the home, and the volume is condemned."""
    status = workspace.status
    return replace(
        status,
        conditions=without_adoption(status.conditions),
        archive_key=archive_key(workspace.id, op_id),
        home_ctx=replace(status.home_ctx, volume=VolumeState.CONDEMNED),
    )


def _remove_archived(workspace: Workspace, seen: Seen) -> Step:
    status = workspace.status
    if seen.job(status.op_id) is not None and status.op_id is not None:
        return Act(a.RemoveJob(status.op_id), "the archive job is done")
    if seen.volume is None:
        return _CANNOT_LOOK
    if not seen.volume.exists:
        return Wait("the volume is gone")
    if seen.archive is not ArchiveSeen.VERIFIED:
        return Wait("the archive must be verified before the volume is removed")
    assert status.archive_key is not None
    step = _clear_the_place(status.home_ctx, seen, archived=parse_archive_key(status.archive_key).op_id)
    if not isinstance(step, Act) or status.home_ctx.removal_asked:
        return step
    asked = replace(status, home_ctx=replace(status.home_ctx, removal_asked=True))
    return Change(asked, step.why, step.action)  # before the call: from then on nobody takes this volume back


def _making_archive(workspace: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId) -> Step:
    status = workspace.status
    op_id = status.op_id
    assert op_id is not None
    if seen.job(op_id) is not None:
        return Act(a.RemoveJob(op_id), "no job belongs to this operation")
    match seen.op_archive:
        case ArchiveSeen.VERIFIED:
            return Change(
                replace(status, archive_key=archive_key(workspace.id, op_id)), "the archive is complete and verified"
            )
        case ArchiveSeen.MISSING | ArchiveSeen.LISTED:
            return Act(a.MakeArchive(op_id, workspace.source_archive), "the first archive is made")
        case ArchiveSeen.CORRUPTED | ArchiveSeen.EXPIRED:
            return _made_anew(workspace, now, fresh_op_id)
        case _:
            return Wait("the archive store could not be looked at")


def _deleting(workspace: Workspace, seen: Seen) -> Step:
    """Whoever deleted the workspace decided that this volume goes: no archive is asked for."""
    status = workspace.status
    if status.op_id is not None and seen.job(status.op_id) is not None:
        return Act(a.RemoveJob(status.op_id), "its job must be gone first")
    instance = _without_instance(seen)
    if instance is not None:
        return instance
    if seen.volume is None:
        return _CANNOT_LOOK
    if not seen.volume.exists:
        return Wait("nothing is left")
    return _clear_the_place(status.home_ctx, seen)


def _clear_the_place(home: HomeContext, seen: Seen, *, archived: OpId | None = None) -> Step:
    """Remove a volume that this row made earlier, by its incarnation; one it did not make is a person's to decide."""
    assert seen.volume is not None
    if is_leftover(home, seen.volume):
        return Act(a.DeleteVolume(seen.volume.ref, archived), "an old volume is removed")
    return Fault(ErrorReason.VOLUME_UNKNOWN, "")
