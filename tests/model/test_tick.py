"""One tick: what is committed, what is done, and what is left alone."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model import actions as a
from codehub.model.conditions import Conditions
from codehub.model.names import archive_key
from codehub.model.observation import InstanceSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.phase import calculate_phase
from codehub.model.tick import OBSERVED_AT_EVERY
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    HomeContext,
    Incarnation,
    Operation,
    Phase,
    Workspace,
)
from tests.model import builders as b
from tests.model.ticking import (
    ALIVE,
    AT_REST,
    DIED,
    KEY,
    RUNNING_HOME,
    A,
    E,
    Op,
    P,
    V,
    during,
    job,
    row_with,
    tick,
    ticked,
)

# -- a look that changes nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", AT_REST)
def test_a_look_that_changes_nothing_writes_nothing(case: str) -> None:
    row, seen = AT_REST[case]
    first = ticked(row, seen)
    second = tick(first, seen, OBSERVED_AT_EVERY.total_seconds() - 1)
    assert second.status == first.status
    assert second.action is None


@pytest.mark.parametrize("case", AT_REST)
def test_but_rarely_that_it_was_looked_at(case: str) -> None:
    row, seen = AT_REST[case]
    first = ticked(row, seen)
    rarely = OBSERVED_AT_EVERY.total_seconds()
    second = tick(first, seen, rarely)
    assert second.status == replace(first.status, observed_at=b.later(rarely))


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


def test_a_deletion_begins_before_its_archive_was_ever_looked_at() -> None:
    """A restored database was given an archive for a row that nobody had looked at."""
    now = b.status(archive_key=KEY, home_ctx=b.LIVE_HOME)
    row = b.workspace(now=now, deleted_at=b.NOW, desired_state=Desired.DELETED)
    status = tick(row, replace(b.NOTHING, volume=b.LIVE_VOLUME, archive=None)).status
    assert (status.phase, status.operation) == (Phase.DELETING, Operation.DELETING)


def test_nothing_of_a_deleted_workspace_is_declared_gone_that_was_never_looked_at() -> None:
    row = b.workspace(now=b.status(phase=P.ARCHIVED, archive_key=KEY), deleted_at=b.NOW)
    assert tick(row, Seen()).status.phase is P.ARCHIVED
    assert tick(row, replace(b.NOTHING, archive=A.LISTED)).status.phase is P.DELETING
    assert tick(row, replace(b.NOTHING, archive=A.MISSING)).status.phase is P.DELETED


# -- the commit before the deletion ---------------------------------------------------------------------------------


def test_the_archive_is_committed_a_tick_before_the_volume_goes() -> None:
    row, seen = during(Op.ARCHIVING, desired_state=Desired.ARCHIVED)
    done = replace(seen, op_archive=A.VERIFIED)
    commit = tick(row, replace(done, jobs=job(JobState.SUCCEEDED)), 5)
    assert commit.action is None
    assert commit.status.archive_key == archive_key(b.WORKSPACE, b.OP)
    assert (commit.status.phase, commit.status.home_ctx.volume) == (P.ARCHIVED, V.CONDEMNED)
    then = tick(replace(row, status=commit.status), replace(done, archive=A.VERIFIED), 6)
    assert then.action == a.DeleteVolume(b.LIVE_VOLUME.ref, b.OP)


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
