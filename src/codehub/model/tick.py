"""One tick of one workspace: observe, judge, control, as a single pure function.

    decide(workspace, seen) → the status to commit, then the one action to take

The shell commits `status` by compare-and-set on what it read, and only then takes `action`; what the action did is
learnt from the next look. So a crash between any two lines leaves a row from which the next tick goes on, and a
commit (archive_key) always comes before what relies on it (deleting the volume).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from codehub.model import actions as a
from codehub.model import conditions as c
from codehub.model.actions import Action
from codehub.model.completion import completed, is_complete, started
from codehub.model.failure import (
    Fault,
    Rules,
    after_failure,
    counted,
    deadline,
    ending_fault,
    is_put_off,
    is_waiting,
)
from codehub.model.finishing import action_for, finishing
from codehub.model.health import judge, lasting_fault
from codehub.model.leaving import (
    abandoned,
    can_be_left,
    is_abandoned,
    is_committed,
    is_hidden,
    put_off,
    taken_back,
    unless_wanted_again,
    was_kept,
)
from codehub.model.observation import ArchiveSeen, Seen
from codehub.model.observe import is_asked_for, is_live, lacks_mark, observe
from codehub.model.phase import calculate_phase
from codehub.model.plan import next_operation
from codehub.model.recovery import honour
from codehub.model.steps import Act, Change, Wait, next_step
from codehub.model.suspicion import is_volume_lost
from codehub.model.workspace import Desired, ErrorReason, Operation, OpId, Phase, Status, VolumeState, Workspace

OBSERVED_AT_EVERY = timedelta(hours=6)  # an observation that changes nothing is noted this rarely

NEEDS_STORE = frozenset({Operation.RESTORING, Operation.ARCHIVING, Operation.CREATE_EMPTY_ARCHIVE})
# Begun from what the row names, or from nothing: of a restored database that may be an older home than there is.
MAKES_HOME = frozenset({Operation.RESTORING, Operation.PROVISIONING, Operation.CREATE_EMPTY_ARCHIVE})
_STORE_SILENT = frozenset({ArchiveSeen.UNREACHABLE, ArchiveSeen.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Decision:
    """What to commit, and what to do once it is committed."""

    status: Status
    action: Action | None
    why: str

    def starts_operation(self, workspace: Workspace) -> bool:
        return workspace.status.operation is Operation.NONE and self.status.operation is not Operation.NONE


def decide(workspace: Workspace, seen: Seen, *, now: datetime, fresh_op_id: OpId, rules: Rules) -> Decision:
    """Move one workspace one step. Safe to repeat, safe to interrupt."""
    looked = _with(workspace, honour(workspace, seen))
    looked = _with(looked, unless_wanted_again(looked))
    looked = _with(looked, _seen_as(looked.status, observe(looked, seen, now)))
    looked = _count_early_death(workspace, looked, seen, now, rules)
    decision = (
        _finishing(workspace, looked, seen, now, rules)
        or _hold_for_jobs(workspace, looked, seen, rules)
        or _control(looked, seen, now, fresh_op_id, rules)
    )
    return _noted(workspace, decision, now)


def _finishing(workspace: Workspace, looked: Workspace, seen: Seen, now: datetime, rules: Rules) -> Decision | None:
    """A job that would complete the volume which is there is not in anybody's way: all else waits for its end."""
    job = finishing(looked, seen)
    if job is None:
        return None
    action, why = action_for(job, looked, seen, now, rules)
    return Decision(workspace.status, action, why)


def _hold_for_jobs(workspace: Workspace, looked: Workspace, seen: Seen, rules: Rules) -> Decision | None:
    """An operation that cannot go on ends only once no job of it can write: until then the row stays as it is."""
    if workspace.status.operation is Operation.NONE or seen.jobs == ():
        return None
    overtaken = workspace.wish.deleted_at is not None and workspace.status.operation is not Operation.DELETING
    unwanted = overtaken or is_abandoned(looked, seen)
    if not unwanted and (lasting_fault(looked, seen) or ending_fault(looked, rules)) is None:
        return None
    if seen.jobs is None:
        return Decision(workspace.status, None, "its job could not be looked at")
    return Decision(workspace.status, a.RemoveJob(seen.jobs[0].op_id), "its job must be gone before it ends")


def _control(looked: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId, rules: Rules) -> Decision:
    status = looked.status
    lasting = lasting_fault(looked, seen)
    if lasting is None and is_abandoned(looked, seen):
        why = f"it should be {looked.wish.desired_state}: archiving is abandoned, and its home stays as it is"
        return Decision(_derived(looked, abandoned(status), seen, now), None, why)
    if lasting is None and not seen.jobs and was_kept(looked, seen):
        back = _derived(looked, taken_back(looked, seen, now), seen, now)
        return Decision(back, None, back.conditions.healthy.message)
    fault = lasting or ending_fault(looked, rules)
    if fault is None and is_complete(looked, seen):
        done = completed(looked, seen)
        return Decision(_derived(looked, done, seen, now), None, f"{status.operation} is complete")
    if fault is None:
        fault = _overdue(looked, seen, now, rules)
    if fault is not None and status.operation is not Operation.NONE and seen.jobs:
        why = "its job must be gone before it ends"
        return Decision(_derived(looked, status, seen, now), a.RemoveJob(seen.jobs[0].op_id), why)
    if fault is not None and lasting is None and can_be_left(looked, seen):
        put = _derived(looked, put_off(looked, fault, now), seen, now)
        return Decision(put, None, put.conditions.healthy.message)
    if fault is not None and lasting is None and is_hidden(looked, seen):
        return Decision(_derived(looked, status, seen, now), None, "whether its home is there must be seen first")
    if fault is not None:
        return _end_in_error(looked, seen, fault, now)
    if status.operation is Operation.NONE:
        return _begin(looked, seen, now, fresh_op_id)
    if looked.wish.deleted_at is not None and status.operation is not Operation.DELETING:
        dropped = replace(status, operation=Operation.NONE, op_started_at=None, retry_at=None)
        return Decision(_derived(looked, dropped, seen, now), None, "it was deleted")
    if is_waiting(status, now):
        return Decision(_derived(looked, status, seen, now), None, "it waits before the next attempt")
    return _proceed(looked, seen, now, fresh_op_id)


def _begin(looked: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId) -> Decision:
    status = _derived(looked, looked.status, seen, now)
    looked = _with(looked, status)
    waits = is_waiting(status, now)
    if seen.jobs and (not waits or is_put_off(status)):
        return Decision(status, a.RemoveJob(seen.jobs[0].op_id), "a job without an operation must be gone first")
    if seen.jobs is None or seen.instance is None or seen.volume is None:
        return Decision(status, None, "what is there could not be looked at")
    if seen.jobs:
        return Decision(status, None, "it waits before the next attempt")
    if looked.wish.deleted_at is None and is_volume_lost(looked, seen) is None:
        return Decision(status, None, "whether its home is there must be looked at directly first")
    if waits and not is_put_off(status):
        return Decision(status, None, "it waits before the next attempt")
    plan = next_operation(looked, seen)
    if waits and plan.operation is Operation.ARCHIVING:
        return Decision(status, None, "its home could not be archived; the next attempt waits")
    if plan.operation is Operation.NONE:
        return Decision(_forgotten(looked, seen), _mark(looked, seen), plan.why)
    if plan.operation in MAKES_HOME and seen.adoption_due:
        return Decision(status, None, "the database was restored, and newer archives are to be adopted first")
    if plan.operation in NEEDS_STORE and (seen.store_out or seen.archive in _STORE_SILENT):
        return Decision(status, None, "the archive store is out")
    begun = started(looked, plan.operation, seen, now, fresh_op_id)
    return Decision(_derived(looked, begun, seen, now), None, plan.why)


def _mark(looked: Workspace, seen: Seen) -> Action | None:
    """A live home that is not marked: it was made before there were marks, or its mark went away."""
    volume = seen.volume
    if looked.wish.deleted_at is not None or volume is None or not lacks_mark(volume):
        return None
    return a.MarkWhole(volume.ref) if is_live(looked.status.home_ctx, volume) else None


def _forgotten(looked: Workspace, seen: Seen) -> Status:
    """Of a deleted workspace nothing is left to remember, once nothing is left: an undelete starts from the archive."""
    status = looked.status
    gone = seen.volume is not None and not seen.volume.exists and seen.volume.confirmed
    if looked.wish.deleted_at is None or not gone:
        return status
    return replace(status, home_ctx=replace(status.home_ctx, volume=VolumeState.NONE, uid=None, restore_marker=None))


def _proceed(looked: Workspace, seen: Seen, now: datetime, fresh_op_id: OpId) -> Decision:
    match next_step(looked, seen, now, fresh_op_id):
        case Act(action, why):
            status = looked.status
            if isinstance(action, a.StartArchiveJob | a.StartRestoreJob):
                status = replace(status, retry_at=None)  # a new attempt: its failure is to be counted
            return Decision(_derived(looked, status, seen, now), action, why)
        case Wait(why):
            return Decision(_derived(looked, looked.status, seen, now), None, why)
        case Change(changed, why, action):
            if changed.archive_key != looked.status.archive_key:
                seen = replace(seen, archive=seen.op_archive)  # what was verified is now the archive of record
            changed_workspace = _with(looked, changed)
            changed = replace(changed, conditions=observe(changed_workspace, seen, now))
            changed_workspace = _with(looked, changed)
            if is_complete(changed_workspace, seen):
                changed = completed(changed_workspace, seen)
            return Decision(_derived(looked, changed, seen, now), action, why)
        case Fault() as fault:
            job = seen.job(looked.status.op_id)
            remove = a.RemoveJob(job.op_id) if job else None  # the next attempt starts without it
            # A pause means that this failure was counted already, and its job is still there.
            again = job is not None and looked.status.retry_at is not None
            failed = looked.status if again else after_failure(looked, fault, now)
            return Decision(_derived(looked, failed, seen, now), remove, fault.message)


def _end_in_error(looked: Workspace, seen: Seen, fault: Fault, now: datetime) -> Decision:
    """ERROR: phase, operation, error_reason and error_count in one commit; op_id stays, for GC's protection."""
    status = looked.status
    home = status.home_ctx
    if status.operation is Operation.STARTING:
        home = replace(home, instance_op=None)  # so that its instance is removed, now or when it lands late
    detail = fault.message
    pausing = status.operation is Operation.NONE and is_waiting(status, now)  # tidying up failed a moment ago
    failed = replace(
        status,
        operation=Operation.NONE,
        op_started_at=None,
        home_ctx=home,
        error_reason=fault.reason,
        error_count=max(status.error_count, 1),
        retry_at=status.retry_at if pausing else None,
    )
    failed = _derived(looked, failed, seen, now, detail)
    action = None if pausing else _cleanup_in_error(failed, seen)
    return Decision(failed, action, fault.message or "it needs a person")


def _cleanup_in_error(status: Status, seen: Seen) -> Action | None:
    """ERROR starts nothing, but leaves nothing running that has no home or that nobody asked for."""
    if seen.jobs:
        return a.RemoveJob(seen.jobs[0].op_id)
    if seen.instance is None or not seen.instance.exists:
        return None
    homeless = not status.conditions.volume_ready.status
    if homeless or not is_asked_for(status.home_ctx, seen.instance):
        return a.RemoveInstance()
    return None


def _overdue(looked: Workspace, seen: Seen, now: datetime, rules: Rules) -> Fault | None:
    """Whether the operation has gone without progress for longer than its limit, outages not counted."""
    status = looked.status
    until = deadline(status, seen.deadline_from, now, rules)
    if until is None or looked.wish.deleted_at is not None:
        return None
    if seen.jobs is None or seen.instance is None or seen.volume is None:
        return None
    # One archive that cannot be read back, in a store that answers: it is made anew later. Or its volume is condemned,
    # and still whole: whether that one is the home is a person's to decide.
    has_way_on = can_be_left(looked, seen) or is_committed(status)
    is_silent = bool({seen.archive, seen.op_archive} & _STORE_SILENT) and not has_way_on
    if status.operation in NEEDS_STORE and (seen.store_out or is_silent):
        return None
    if now <= until:
        return None
    limit = rules.time_limits[status.operation]
    return Fault(ErrorReason.TIMEOUT, f"{status.operation} made no progress for {int(limit.total_seconds())} s.")


def _count_early_death(before: Workspace, looked: Workspace, seen: Seen, now: datetime, rules: Rules) -> Workspace:
    """A container that keeps dying soon after it was ready counts as a failed STARTING, although each one completed.

    One that a machine in distress ended is an outage of that machine: it is started again after a pause, uncounted.
    """
    status = looked.status
    if before.status.phase is not Phase.RUNNING or before.status.operation is not Operation.NONE:
        return looked
    lived = now - before.status.phase_changed_at
    if not timedelta(0) <= lived < rules.crash_loop_window:  # or the clock jumped back, and nobody knows
        if status.error_count:
            return _with(looked, replace(status, error_count=0, error_reason=None, retry_at=None))
        return looked
    died = not status.conditions.container_ready.status and status.conditions.volume_ready.status
    if died and looked.wish.desired_state is Desired.RUNNING and looked.wish.deleted_at is None:
        why = status.conditions.container_ready.message
        message = f"The container stopped {int(lived.total_seconds())} s after it was ready. {why}".rstrip()
        blameless = seen.instance is not None and seen.instance.blameless
        reason = ErrorReason.UNREACHABLE if blameless else ErrorReason.ACTION_FAILED
        return _with(looked, counted(looked, Fault(reason, message), now))
    return looked


def _derived(looked: Workspace, status: Status, seen: Seen, now: datetime, detail: str = "") -> Status:
    """The status with its conditions brought up to date, health judged and the phase derived from them."""
    conditions = observe(_with(looked, status), seen, now)
    if status.operation is Operation.NONE or looked.wish.deleted_at is not None:
        conditions = conditions.with_health(judge(conditions, status.error_reason, now, detail))
    # else: health is judged when the operation ends; ERROR while one runs would break non-preemption
    phase = calculate_phase(conditions, looked.wish.deleted_at, status.archive_key)
    if phase is Phase.DELETED and not _all_observed(conditions):
        phase = status.phase  # nothing is declared gone that was never looked at
    endpoint = _endpoint(status, phase, seen)
    if phase is status.phase and endpoint == status.endpoint:
        return _seen_as(status, conditions)
    return replace(
        status,
        conditions=conditions,
        phase=phase,
        phase_changed_at=now if phase is not status.phase else status.phase_changed_at,
        endpoint=endpoint,
    )


def _endpoint(status: Status, phase: Phase, seen: Seen) -> str | None:
    if phase is not Phase.RUNNING or status.operation is not Operation.NONE:
        return None
    if is_asked_for(status.home_ctx, seen.instance) and seen.instance is not None:
        return seen.instance.endpoint
    return status.endpoint


def _all_observed(conditions: c.Conditions) -> bool:
    looked = (conditions.volume_ready, conditions.container_ready, conditions.archive_ready)
    return all(condition.reason != c.NOT_OBSERVED for condition in looked)


def _noted(before: Workspace, decision: Decision, now: datetime) -> Decision:
    """observed_at moves with any change, else only rarely, so that a quiet workspace is not written."""
    last = before.status.observed_at
    if decision.status == before.status and last is not None and now - last < OBSERVED_AT_EVERY:
        return decision
    return replace(decision, status=replace(decision.status, observed_at=now))


# Most ticks change nothing: then nothing is made anew, which is most of the cost of a tick over many workspaces.


def _with(workspace: Workspace, status: Status) -> Workspace:
    return workspace if status is workspace.status else replace(workspace, status=status)


def _seen_as(status: Status, conditions: c.Conditions) -> Status:
    return status if conditions is status.conditions else replace(status, conditions=conditions)
