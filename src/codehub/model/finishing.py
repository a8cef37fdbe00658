"""A restore that a database no longer remembers, and that is still at work on its volume.

The database went back in time (a restored backup, lost commits) and the job did not. Killed, it would leave half a
home; so it is left alone until it ends, and if it ends well, its volume is marked as whole before anything is decided.
"""

from datetime import datetime

from codehub.model import actions as a
from codehub.model.actions import Action
from codehub.model.failure import Rules
from codehub.model.observation import JobSeen, JobState, Seen
from codehub.model.observe import is_unknown
from codehub.model.workspace import Incarnation, Operation, Workspace


def finishing(workspace: Workspace, seen: Seen) -> JobSeen | None:
    """The job that made the volume that is there, which the row does not know, and may still complete it."""
    volume = seen.volume
    if workspace.wish.deleted_at is not None or volume is None or volume.whole:
        return None
    if not is_unknown(workspace.status.home_ctx, volume):
        return None
    # A restore makes its volume under its own op_id; an archive job's is never its volume's.
    mine = [job for job in seen.jobs or () if Incarnation(str(job.op_id)) == volume.incarnation]
    return next((job for job in mine if job.volume_uid == volume.uid and job.state is not JobState.FAILED), None)


def action_for(
    job: JobSeen, workspace: Workspace, seen: Seen, now: datetime, rules: Rules
) -> tuple[Action | None, str]:
    """What is done about it: nothing while it gets further, then the mark; one that stands still is removed.

    So is one whose home cannot be marked: then a person decides about that home.
    """
    assert seen.volume is not None
    status = workspace.status
    marks = (status.phase_changed_at, status.op_started_at, seen.deadline_from)
    last = max((mark for mark in marks if mark is not None and mark <= now), default=now)  # as in failure.deadline
    is_overdue = now - last > rules.time_limits[Operation.RESTORING]
    if job.state is JobState.SUCCEEDED and job.restore_marker is not None and not is_overdue:
        return a.MarkWhole(seen.volume.ref), "a restore that the database does not remember has made this home whole"
    if job.state is JobState.SUCCEEDED or is_overdue:
        return a.RemoveJob(job.op_id), "a restore that the database does not remember got no further"
    return None, "a restore that the database does not remember is being finished"
