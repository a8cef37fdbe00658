"""Tick: how the rules play together in one decision — time limits, crash loops, quiet looks, endings and outages."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model import actions as a
from codehub.model.conditions import Conditions
from codehub.model.failure import Rules
from codehub.model.health import judge
from codehub.model.invariants import violations
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen, InstanceSeen, JobSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.observe import observe
from codehub.model.phase import calculate_phase
from codehub.model.tick import Decision, decide
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    OpId,
    Phase,
    RecoverFrom,
    RecoverRequest,
    VolumeState,
    Workspace,
)
from tests.model import builders as b

Op, V, P, A, E = Operation, VolumeState, Phase, ArchiveSeen, ErrorReason
RULES = Rules()
KEY = archive_key(b.WORKSPACE, b.op(5))
RUNNING_HOME = replace(b.LIVE_HOME, instance_op=b.OP)
BUSY = [operation for operation in Op if operation is not Op.NONE]

# Each operation with a home and a look under which it is neither complete nor broken, and its row's phase.
UNDER_WAY: dict[Operation, tuple[Phase, HomeContext, Seen]] = {
    Op.PROVISIONING: (P.PENDING, HomeContext(incarnation=b.MADE), b.NOTHING),
    Op.RESTORING: (
        P.ARCHIVED,
        HomeContext(V.RESTORING, b.MADE),
        replace(b.NOTHING, volume=b.LIVE_VOLUME, archive=A.LISTED),
    ),
    Op.STARTING: (P.STANDBY, RUNNING_HOME, replace(b.NOTHING, volume=b.LIVE_VOLUME)),
    Op.STOPPING: (P.RUNNING, RUNNING_HOME, replace(b.NOTHING, volume=b.LIVE_VOLUME, instance=b.running(b.OP))),
    Op.ARCHIVING: (P.STANDBY, b.LIVE_HOME, replace(b.NOTHING, volume=b.LIVE_VOLUME, op_archive=A.MISSING)),
    Op.CREATE_EMPTY_ARCHIVE: (P.PENDING, HomeContext(), replace(b.NOTHING, op_archive=A.MISSING)),
    Op.DELETING: (P.DELETING, HomeContext(V.CONDEMNED, b.MADE), replace(b.NOTHING, volume=b.LIVE_VOLUME)),
}


def tick(row: Workspace, seen: Seen, seconds: float = 0, fresh: OpId = b.NEXT_OP) -> Decision:
    """One decision, checked against what no decision may do."""
    decision = decide(row, seen, now=b.later(seconds), fresh_op_id=fresh, rules=RULES)
    assert violations(row, seen, decision) == []
    return decision


def ticked(row: Workspace, seen: Seen, seconds: float = 0) -> Workspace:
    return replace(row, status=tick(row, seen, seconds).status)


def row_with(seen: Seen, *, phase: Phase, **fields: Any) -> Workspace:
    """A row whose conditions are those of an earlier, equal look."""
    wish_names = ("desired_state", "deleted_at", "purged_at", "recover_request")
    wish = {name: fields.pop(name) for name in wish_names if name in fields}
    row = b.workspace(now=b.status(phase=phase, **fields), **wish)
    conditions = observe(row, seen, b.NOW)
    return b.with_status(row, conditions=conditions.with_health(judge(conditions, None, b.NOW)))


def during(operation: Operation, **fields: Any) -> tuple[Workspace, Seen]:
    phase, home, seen = UNDER_WAY[operation]
    key = KEY if operation is Op.RESTORING else None
    fields = {"home_ctx": home, "op_id": b.OP, "op_started_at": b.NOW, "archive_key": key, **fields}
    if operation is Op.DELETING:
        fields.setdefault("deleted_at", b.NOW)
    return row_with(seen, phase=phase, operation=operation, **fields), seen


def job(state: JobState = JobState.RUNNING, **fields: Any) -> tuple[JobSeen, ...]:
    return (JobSeen(b.OP, state, **fields),)


# -- a look that changes nothing ------------------------------------------------------------------------------------

HOME_THERE = replace(b.NOTHING, volume=b.LIVE_VOLUME)
ARCHIVE_THERE = replace(b.NOTHING, archive=A.LISTED)


def at_rest(phase: Phase, desired: Desired, seen: Seen, **fields: Any) -> tuple[Workspace, Seen]:
    return row_with(seen, phase=phase, desired_state=desired, **fields), seen


AT_REST = {
    "running": at_rest(
        P.RUNNING, Desired.RUNNING, replace(HOME_THERE, instance=b.running(b.OP)), home_ctx=RUNNING_HOME
    ),
    "standby": at_rest(P.STANDBY, Desired.STANDBY, HOME_THERE, home_ctx=b.LIVE_HOME),
    "archived": at_rest(P.ARCHIVED, Desired.ARCHIVED, ARCHIVE_THERE, archive_key=KEY),
    "store out": at_rest(P.ARCHIVED, Desired.ARCHIVED, replace(ARCHIVE_THERE, archive=A.UNREACHABLE), archive_key=KEY),
    "in error": at_rest(P.ERROR, Desired.RUNNING, HOME_THERE, home_ctx=b.LIVE_HOME, error_reason=E.TIMEOUT),
    "data lost": at_rest(P.ERROR, Desired.RUNNING, b.NOTHING, home_ctx=b.LIVE_HOME, error_reason=E.DATA_LOST),
    "in the trash": at_rest(P.DELETING, Desired.DELETED, ARCHIVE_THERE, archive_key=KEY, deleted_at=b.NOW),
    "deleted": at_rest(P.DELETED, Desired.DELETED, b.NOTHING, deleted_at=b.NOW),
    "all out": at_rest(P.RUNNING, Desired.RUNNING, Seen(), home_ctx=RUNNING_HOME),
}


@pytest.mark.parametrize("case", AT_REST)
def test_a_look_that_changes_nothing_writes_nothing(case: str) -> None:
    row, seen = AT_REST[case]
    first = ticked(row, seen)
    second = tick(first, seen, 299)
    assert second.status == first.status
    assert second.action is None


@pytest.mark.parametrize("case", AT_REST)
def test_but_every_five_minutes_that_it_was_looked_at(case: str) -> None:
    row, seen = AT_REST[case]
    first = ticked(row, seen)
    second = tick(first, seen, 300)
    assert second.status == replace(first.status, observed_at=b.later(300))


@pytest.mark.parametrize("case", [name for name in AT_REST if name != "all out"])
def test_what_is_at_rest_stays_in_its_phase(case: str) -> None:
    row, seen = AT_REST[case]
    assert ticked(row, seen).status.phase is row.status.phase


def test_any_change_moves_observed_at_and_a_new_phase_its_time() -> None:
    row, seen = AT_REST["running"]
    before = ticked(row, seen)
    after = ticked(before, replace(seen, instance=InstanceSeen(Life.DEAD, b.OP)), 90).status
    assert (after.phase, after.observed_at, after.phase_changed_at) == (P.STANDBY, b.later(90), b.later(90))


# -- starting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "fields", "seen", "operation"),
    [
        (P.PENDING, {}, b.NOTHING, Op.PROVISIONING),
        (P.PENDING, {"desired_state": Desired.ARCHIVED}, b.NOTHING, Op.CREATE_EMPTY_ARCHIVE),
        (P.ARCHIVED, {"archive_key": KEY}, replace(b.NOTHING, archive=A.LISTED), Op.RESTORING),
        (P.STANDBY, {"home_ctx": b.LIVE_HOME}, replace(b.NOTHING, volume=b.LIVE_VOLUME), Op.STARTING),
        (
            P.STANDBY,
            {"home_ctx": b.LIVE_HOME, "desired_state": Desired.ARCHIVED},
            replace(b.NOTHING, volume=b.LIVE_VOLUME),
            Op.ARCHIVING,
        ),
        (
            P.RUNNING,
            {"home_ctx": RUNNING_HOME, "desired_state": Desired.STANDBY},
            replace(b.NOTHING, volume=b.LIVE_VOLUME, instance=b.running(b.OP)),
            Op.STOPPING,
        ),
        (
            P.DELETING,
            {"home_ctx": b.LIVE_HOME, "desired_state": Desired.DELETED, "deleted_at": b.NOW},
            replace(b.NOTHING, volume=b.LIVE_VOLUME),
            Op.DELETING,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Operation) else "",
)
def test_what_starts_an_operation_is_committed_before_anything_is_done(
    phase: Phase, fields: dict[str, Any], seen: Seen, operation: Operation
) -> None:
    row = row_with(seen, phase=phase, op_id=b.OP, **fields)
    decision = tick(row, seen)
    assert decision.starts_operation(row)
    assert decision.action is None
    assert (decision.status.operation, decision.status.op_id) == (operation, b.NEXT_OP)
    assert decision.status.endpoint is None


@pytest.mark.parametrize("state", JobState)
def test_nothing_starts_while_a_job_is_left(state: JobState) -> None:
    decision = tick(b.workspace(), replace(b.NOTHING, jobs=job(state)))
    assert (decision.status.operation, decision.action) == (Op.NONE, a.RemoveJob(b.OP))


@pytest.mark.parametrize("unseen", ["jobs", "instance", "volume"])
def test_nothing_starts_while_something_could_not_be_looked_at(unseen: str) -> None:
    fields: dict[str, Any] = {unseen: None}
    decision = tick(b.workspace(), replace(b.NOTHING, **fields))
    assert (decision.status.operation, decision.action) == (Op.NONE, None)


def test_nothing_starts_during_the_pause_after_a_failure() -> None:
    row = b.workspace(now=b.status(retry_at=b.later(10), error_reason=E.ACTION_FAILED, error_count=1))
    assert tick(row, b.NOTHING, 9).status.operation is Op.NONE
    assert tick(row, b.NOTHING, 10).status.operation is Op.PROVISIONING


@pytest.mark.parametrize("out", [{"store_out": True}, {"archive": A.UNREACHABLE}, {"archive": A.TIMEOUT}])
def test_nothing_that_needs_the_store_starts_while_it_is_out(out: dict[str, Any]) -> None:
    seen = replace(b.NOTHING, **{"archive": A.LISTED, **out})
    row = row_with(seen, phase=P.ARCHIVED, archive_key=KEY)
    decision = tick(row, seen)
    assert (decision.status.operation, decision.status.phase) == (Op.NONE, P.ARCHIVED)


@pytest.mark.parametrize("operation", [Op.PROVISIONING, Op.RESTORING, Op.STARTING, Op.STOPPING, Op.DELETING])
def test_the_pause_after_a_failure_holds_for_the_next_attempt(operation: Operation) -> None:
    row, seen = during(operation, retry_at=b.later(10), error_reason=E.ACTION_FAILED, error_count=1)
    assert tick(row, seen, 9).action is None
    assert tick(row, seen, 10).action is not None


# -- time limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
def test_an_operation_without_progress_ends_at_its_limit(operation: Operation) -> None:
    row, seen = during(operation)
    limit = RULES.time_limits[operation].total_seconds()
    assert tick(row, seen, limit).status.operation is operation
    late = tick(row, seen, limit + 1).status
    assert (late.phase, late.operation, late.error_reason) == (P.ERROR, Op.NONE, E.TIMEOUT)
    assert late.error_count >= 1
    assert late.op_id == b.OP
    assert str(int(limit)) in late.conditions.healthy.message


@pytest.mark.parametrize("operation", [Op.RESTORING, Op.ARCHIVING])
def test_a_job_is_limited_by_its_progress_and_not_by_its_size(operation: Operation) -> None:
    row, seen = during(operation)
    busy = replace(seen, jobs=job(progress_at=b.later(36_000)))
    going = tick(row, busy, 36_600)
    assert (going.status.operation, going.action) == (operation, None)
    stuck = tick(row, busy, 36_601)
    assert stuck.action == a.RemoveJob(b.OP)
    assert stuck.status.operation is operation  # it ends once the job is gone
    ended = tick(replace(row, status=stuck.status), seen, 36_602).status
    assert (ended.phase, ended.error_reason) == (P.ERROR, E.TIMEOUT)


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
@pytest.mark.parametrize("unseen", ["jobs", "instance", "volume"])
def test_no_deadline_runs_while_something_cannot_be_looked_at(operation: Operation, unseen: str) -> None:
    row, seen = during(operation)
    fields: dict[str, Any] = {unseen: None}
    assert tick(row, replace(seen, **fields), 10**6).status.error_reason is None


@pytest.mark.parametrize("operation", [Op.RESTORING, Op.ARCHIVING, Op.CREATE_EMPTY_ARCHIVE])
@pytest.mark.parametrize("out", [{"store_out": True}, {"op_archive": A.UNREACHABLE}, {"op_archive": A.TIMEOUT}])
def test_no_deadline_runs_while_the_store_is_out(operation: Operation, out: dict[str, Any]) -> None:
    row, seen = during(operation)
    assert tick(row, replace(seen, **out), 10**6).status.error_reason is None


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
def test_an_outage_does_not_count(operation: Operation) -> None:
    row, seen = during(operation)
    limit = RULES.time_limits[operation].total_seconds()
    back = replace(seen, deadline_from=b.later(9000))
    assert tick(row, back, 9000 + limit).status.error_reason is None
    assert tick(row, back, 9000 + limit + 1).status.error_reason is E.TIMEOUT


def test_a_deletion_never_times_out() -> None:
    row, seen = during(Op.DELETING)
    decision = tick(row, seen, 10**8)
    assert (decision.status.operation, decision.status.error_reason) == (Op.DELETING, None)
    assert decision.action == a.DeleteVolume(b.LIVE_VOLUME.ref)


@pytest.mark.parametrize("reason", E)
def test_once_deleted_nothing_is_terminal(reason: ErrorReason) -> None:
    row, seen = during(Op.DELETING, error_reason=reason, error_count=300)
    decision = tick(row, seen, 10**6)
    assert (decision.status.operation, decision.status.phase) == (Op.DELETING, P.DELETING)
    assert decision.action is not None


def test_what_is_complete_is_never_late() -> None:
    row, _ = during(Op.PROVISIONING)
    done = tick(row, replace(b.NOTHING, volume=b.LIVE_VOLUME), 10**6).status
    assert (done.phase, done.operation, done.error_reason) == (P.STANDBY, Op.NONE, None)


# -- crash loops ----------------------------------------------------------------------------------------------------

ALIVE = replace(b.NOTHING, volume=b.LIVE_VOLUME, instance=b.running(b.OP))
DIED = replace(ALIVE, instance=InstanceSeen(Life.DEAD, b.OP))


def up(**fields: Any) -> Workspace:
    return row_with(ALIVE, phase=P.RUNNING, home_ctx=RUNNING_HOME, op_id=b.OP, **fields)


@pytest.mark.parametrize(("lived", "counted"), [(0, True), (1, True), (59.9, True), (60, False), (3600, False)])
def test_a_death_within_a_minute_counts_as_a_failed_start(lived: float, counted: bool) -> None:
    after = tick(up(), DIED, lived).status
    expected = (E.ACTION_FAILED, 1) if counted else (None, 0)
    assert (after.error_reason, after.error_count) == expected
    assert after.phase is P.STANDBY


@pytest.mark.parametrize("seen", [DIED, replace(ALIVE, instance=b.ABSENT)], ids=["dead", "gone"])
def test_after_an_early_death_the_next_start_waits(seen: Seen) -> None:
    once = ticked(up(error_count=1), seen, 5)
    assert (once.status.operation, once.status.error_count) == (Op.NONE, 2)
    assert once.status.retry_at == b.later(7)
    assert tick(once, seen, 6).status.operation is Op.NONE
    again = tick(once, seen, 7).status
    assert (again.operation, again.error_count) == (Op.STARTING, 2)


def test_the_third_early_death_in_a_row_is_an_error_that_names_it() -> None:
    after = tick(up(error_count=2), DIED, 5).status
    assert (after.phase, after.operation, after.error_reason) == (P.ERROR, Op.NONE, E.RETRY_EXCEEDED)
    assert "5 s after it was ready" in after.conditions.healthy.message


def test_a_crash_loop_ends_in_error_although_every_start_completed() -> None:
    row, now = up(), 0
    while now < 60 and row.status.phase is not P.ERROR:
        life = Life.READY if row.status.operation is Op.STARTING else Life.DEAD
        seen = replace(ALIVE, instance=InstanceSeen(life, row.status.home_ctx.instance_op))
        now += 5
        row = replace(row, status=tick(row, seen, now, b.op(1000 + now)).status)
    assert row.status.error_reason is E.RETRY_EXCEEDED


@pytest.mark.parametrize(("lived", "count"), [(59, 2), (60, 0), (600, 0)])
def test_a_minute_alive_forgets_the_failures_before(lived: float, count: int) -> None:
    assert tick(up(error_count=2), ALIVE, lived).status.error_count == count


@pytest.mark.parametrize(
    "wish", [{"desired_state": Desired.STANDBY}, {"deleted_at": b.NOW}], ids=["unwanted", "deleted"]
)
def test_only_a_container_that_is_wanted_can_crash(wish: dict[str, Any]) -> None:
    assert tick(up(**wish), DIED, 5).status.error_count == 0


def test_a_container_that_is_being_stopped_does_not_crash() -> None:
    row, _ = during(Op.STOPPING, desired_state=Desired.STANDBY)
    assert tick(row, DIED, 5).status.error_count == 0


# -- ending in ERROR ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [Op.RESTORING, Op.ARCHIVING])
@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize(("reason", "count"), [(E.ARCHIVE_CORRUPTED, 1), (E.ACTION_FAILED, 3)])
def test_a_terminal_failure_waits_for_the_job_to_be_gone(
    operation: Operation, state: JobState, reason: ErrorReason, count: int
) -> None:
    row, seen = during(operation, error_reason=reason, error_count=count)
    waiting = tick(row, replace(seen, jobs=job(state)), 5)
    assert waiting.action == a.RemoveJob(b.OP)
    assert replace(waiting.status, observed_at=None) == row.status
    unseen = tick(row, replace(seen, jobs=None), 5)
    assert (unseen.action, unseen.status.operation) == (None, operation)
    ended = tick(row, seen, 5).status
    assert (ended.phase, ended.operation, ended.op_id) == (P.ERROR, Op.NONE, b.OP)
    assert ended.error_reason is (reason if reason is not E.ACTION_FAILED else E.RETRY_EXCEEDED)


def test_a_loss_during_an_operation_ends_it_once_its_job_is_gone() -> None:
    row, _ = during(Op.ARCHIVING)
    lost = replace(b.NOTHING, op_archive=A.MISSING)
    held = tick(row, replace(lost, jobs=job(JobState.FAILED)))
    assert (held.status.operation, held.action) == (Op.ARCHIVING, a.RemoveJob(b.OP))
    ended = tick(row, lost).status
    assert (ended.phase, ended.operation, ended.error_reason) == (P.ERROR, Op.NONE, E.DATA_LOST)


@pytest.mark.parametrize("life", Life)
def test_going_to_error_from_starting_removes_the_instance(life: Life) -> None:
    row, seen = during(Op.STARTING, error_reason=E.IMAGE_PULL_FAILED, error_count=1)
    decision = tick(row, replace(seen, instance=InstanceSeen(life, b.OP)))
    assert decision.status.phase is P.ERROR
    assert decision.action == a.RemoveInstance()
    assert decision.status.home_ctx.instance_op is None  # so that one that lands late is removed too


def test_a_container_without_its_volume_is_removed_and_the_loss_remains() -> None:
    decision = tick(up(), replace(ALIVE, volume=b.NO_VOLUME), 600)
    assert (decision.status.error_reason, decision.action) == (E.DATA_LOST, a.RemoveInstance())
    after = tick(replace(up(), status=decision.status), b.NOTHING, 601).status
    assert (after.phase, after.error_reason, after.conditions.healthy.reason) == (P.ERROR, E.DATA_LOST, "DataLost")


def test_conditions_show_reality_in_error_too() -> None:
    row, seen = AT_REST["in error"]
    row = ticked(row, seen)
    seen_later = replace(seen, instance=b.running(b.op(77)))
    decision = tick(row, seen_later, 5)
    assert decision.status.phase is P.ERROR
    assert decision.status.conditions.container_ready.reason == "ContainerNotRunning"
    assert decision.action == a.RemoveInstance()  # nobody asked for it


@pytest.mark.parametrize("reason", [reason for reason in E if reason not in (E.ACTION_FAILED, E.UNREACHABLE)])
def test_error_lasts_until_a_person_recovers_it(reason: ErrorReason) -> None:
    seen = replace(b.NOTHING, volume=b.LIVE_VOLUME)
    row = row_with(seen, phase=P.ERROR, home_ctx=b.LIVE_HOME, error_reason=reason, error_count=1)
    for seconds in (0, 10**4, 10**8):
        row = ticked(row, seen, seconds)
        assert (row.status.phase, row.status.error_reason, row.status.operation) == (P.ERROR, reason, Op.NONE)
    asked = replace(row.wish, recover_request=RecoverRequest(b.op(70), RecoverFrom.AS_IS, reason))
    assert tick(replace(row, wish=asked), seen, 10**8).status.error_reason is None


def test_a_loss_is_judged_in_the_tick_that_honours_a_recovery() -> None:
    row, seen = AT_REST["data lost"]
    row = ticked(row, seen)
    asked = replace(row.wish, recover_request=RecoverRequest(b.op(70), RecoverFrom.AS_IS, E.DATA_LOST))
    after = tick(replace(row, wish=asked), seen, 5).status
    assert (after.phase, after.error_reason, after.recover_handled_id) == (P.ERROR, E.DATA_LOST, b.op(70))


# -- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", Op)
def test_an_outage_leaves_everything_as_it_was(operation: Operation) -> None:
    row, seen = AT_REST["running"] if operation is Op.NONE else during(operation)
    before = ticked(row, seen) if operation is Op.NONE else row
    decision = tick(before, Seen(store_out=True), 200)
    assert decision.action is None
    assert replace(decision.status, observed_at=None) == replace(before.status, observed_at=None)


def test_an_endpoint_outlives_an_outage_and_not_the_container() -> None:
    row = ticked(*AT_REST["running"])
    assert row.status.endpoint == "127.0.0.1:8080"
    assert tick(row, Seen(), 5).status.endpoint == "127.0.0.1:8080"
    assert tick(row, DIED, 90).status.endpoint is None


def test_an_instance_that_nobody_asked_for_gets_no_endpoint() -> None:
    row = ticked(*AT_REST["standby"])
    decision = tick(row, replace(ALIVE, instance=b.running(b.op(77))), 5)
    assert decision.status.endpoint is None
    assert decision.status.operation is Op.STOPPING


def test_nothing_of_a_deleted_workspace_is_declared_gone_that_was_never_looked_at() -> None:
    row = b.workspace(now=b.status(phase=P.ARCHIVED, archive_key=KEY), deleted_at=b.NOW)
    assert tick(row, Seen()).status.phase is P.ARCHIVED
    assert tick(row, replace(b.NOTHING, archive=A.LISTED)).status.phase is P.DELETING
    assert tick(row, replace(b.NOTHING, archive=A.MISSING)).status.phase is P.DELETED


# -- the commit before the deletion ---------------------------------------------------------------------------------


def test_the_archive_is_committed_a_tick_before_the_volume_goes() -> None:
    row, seen = during(Op.ARCHIVING, desired_state=Desired.ARCHIVED)
    done = replace(seen, op_archive=A.VERIFIED)
    commit = tick(row, done, 5)
    assert commit.action is None
    assert commit.status.archive_key == archive_key(b.WORKSPACE, b.OP)
    assert (commit.status.phase, commit.status.home_ctx.volume) == (P.ARCHIVED, V.CONDEMNED)
    then = tick(replace(row, status=commit.status), replace(done, archive=A.VERIFIED), 6)
    assert then.action == a.DeleteVolume(b.LIVE_VOLUME.ref)


def test_a_deletion_overtakes_an_operation_once_its_job_is_gone() -> None:
    row, seen = during(Op.ARCHIVING, desired_state=Desired.DELETED, deleted_at=b.NOW)
    held = tick(row, replace(seen, jobs=job()))
    assert (held.status.operation, held.action) == (Op.ARCHIVING, a.RemoveJob(b.OP))
    dropped = tick(row, seen)
    assert (dropped.status.operation, dropped.action) == (Op.NONE, None)


# -- for anything that can be seen ----------------------------------------------------------------------------------

incarnations = st.sampled_from([b.MADE, Incarnation("old"), Incarnation("stranger")])
looks = st.builds(
    Seen,
    instance=st.none() | st.builds(InstanceSeen, st.sampled_from([None, *Life]), st.sampled_from([b.OP, b.op(5)])),
    volume=st.none() | st.builds(VolumeSeen, st.booleans(), incarnations, st.sampled_from(["u1", "u2"]), st.booleans()),
    archive=st.none() | st.sampled_from(A),
    op_archive=st.none() | st.sampled_from(A),
    jobs=st.sampled_from([None, (), (), (), *[job(state) for state in JobState]]),
    store_out=st.booleans(),
)
homes = st.builds(
    HomeContext,
    volume=st.sampled_from(V),
    incarnation=st.just(b.MADE),
    uid=st.sampled_from([None, "u1"]),
    retired=st.sampled_from([(), (Incarnation("old"),)]),
    instance_op=st.sampled_from([None, b.OP]),
)
keys: st.SearchStrategy[ArchiveKey | None] = st.sampled_from([None, KEY])


@st.composite
def rows(draw: st.DrawFn) -> tuple[Workspace, Seen]:
    """A row without an operation, as an earlier look left it, and a new look."""
    earlier, now = draw(looks), draw(looks)
    fields = {"home_ctx": draw(homes), "archive_key": draw(keys), "op_id": b.OP}
    wish = {"desired_state": draw(st.sampled_from(Desired)), "deleted_at": draw(st.sampled_from([None, None, b.NOW]))}
    row = row_with(earlier, phase=P.PENDING, **fields, **wish)
    row = b.with_status(row, phase=calculate_phase(row.status.conditions, row.wish.deleted_at, row.status.archive_key))
    return row, now


@given(rows())
@settings(max_examples=150)
def test_no_decision_starts_an_operation_and_acts(given_: tuple[Workspace, Seen]) -> None:
    row, seen = given_
    decision = tick(row, seen, 5)
    if decision.starts_operation(row):
        assert decision.action is None
        assert decision.status.op_id == b.NEXT_OP
        assert seen.jobs == ()
    else:
        assert decision.status.op_id == b.OP


@given(rows())
@settings(max_examples=150)
def test_the_same_look_again_changes_nothing_unless_something_is_in_progress(given_: tuple[Workspace, Seen]) -> None:
    row, seen = given_
    first = ticked(row, seen, 5)
    if first.status.operation is Op.NONE:
        second = tick(first, seen, 6)
        third = tick(replace(first, status=second.status), seen, 7)
        assert third.status == second.status or second.starts_operation(first)


@given(rows())
@settings(max_examples=80)
def test_what_could_not_be_looked_at_keeps_its_last_condition(given_: tuple[Workspace, Seen]) -> None:
    row, _ = given_
    before = row.status.conditions
    after = tick(row, Seen(), 5).status.conditions

    def observed(conditions: Conditions) -> list[Any]:
        return [conditions.volume_ready, conditions.container_ready]

    assert observed(after) == observed(before)
    if row.status.archive_key is not None:
        assert after.archive_ready == before.archive_ready
