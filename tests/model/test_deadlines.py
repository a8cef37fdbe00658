"""Time limits and crash loops: when an operation, or a container, has failed although nothing said so."""

from dataclasses import replace
from typing import Any

import pytest

from codehub.model import actions as a
from codehub.model.observation import InstanceSeen, Life, Seen
from codehub.model.workspace import (
    Desired,
    ErrorReason,
    Operation,
)
from tests.model import builders as b
from tests.model.ticking import (
    ALIVE,
    BUSY,
    DIED,
    RULES,
    A,
    E,
    Op,
    P,
    during,
    job,
    tick,
    ticked,
    up,
)

# -- time limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
def test_an_operation_without_progress_ends_at_its_limit(operation: Operation) -> None:
    row, seen = during(operation)
    limit = RULES.time_limits[operation].total_seconds()
    assert tick(row, seen, limit).status.operation is operation
    late = tick(row, seen, limit + 1).status
    how = (P.STANDBY, E.ACTION_FAILED) if operation is Op.ARCHIVING else (P.ERROR, E.TIMEOUT)
    assert (late.phase, late.error_reason) == how
    assert late.operation is Op.NONE
    assert late.error_count >= 1
    assert late.op_id == b.OP
    assert str(int(limit)) in late.conditions.healthy.message


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
def test_a_limit_holds_although_the_clock_jumped_back_by_a_day(operation: Operation) -> None:
    """All that the row has noted lies ahead; the leader knows from when it counts."""
    row, seen = during(operation)
    day, limit = 86_400, RULES.time_limits[operation].total_seconds()
    behind = replace(seen, deadline_from=b.later(-day))
    assert tick(row, behind, -day + limit).status.operation is operation
    assert tick(row, behind, -day + limit + 1).status.operation is Op.NONE


@pytest.mark.parametrize("operation", [Op.RESTORING, Op.ARCHIVING])
def test_a_jobs_own_clock_gives_it_no_time(operation: Operation) -> None:
    """It is a day ahead; that it got further is noted by the leader, whose clock this is not."""
    row, seen = during(operation)
    limit = RULES.time_limits[operation].total_seconds()
    ahead = replace(seen, jobs=job(progress_at=b.later(86_400)))
    assert tick(row, ahead, limit).action is None
    assert tick(row, ahead, limit + 1).action == a.RemoveJob(b.OP)


@pytest.mark.parametrize("operation", [Op.RESTORING, Op.ARCHIVING])
def test_a_job_is_limited_by_its_progress_and_not_by_its_size(operation: Operation) -> None:
    row, seen = during(operation)
    busy = replace(seen, jobs=job(), deadline_from=b.later(36_000))
    going = tick(row, busy, 36_600)
    assert (going.status.operation, going.action) == (operation, None)
    stuck = tick(row, busy, 36_601)
    assert stuck.action == a.RemoveJob(b.OP)
    assert stuck.status.operation is operation  # it ends once the job is gone
    ended = tick(replace(row, status=stuck.status), seen, 36_602).status
    assert (ended.phase, ended.operation) == (P.STANDBY if operation is Op.ARCHIVING else P.ERROR, Op.NONE)


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
@pytest.mark.parametrize("unseen", ["jobs", "instance", "volume"])
def test_no_deadline_runs_while_something_cannot_be_looked_at(operation: Operation, unseen: str) -> None:
    row, seen = during(operation)
    fields: dict[str, Any] = {unseen: None}
    assert tick(row, replace(seen, **fields), 10**6).status.error_reason is None


@pytest.mark.parametrize("operation", [Op.RESTORING, Op.ARCHIVING, Op.CREATE_EMPTY_ARCHIVE])
@pytest.mark.parametrize("out", [{"store_out": True}, {"op_archive": A.UNREACHABLE}, {"op_archive": A.TIMEOUT}])
def test_no_deadline_runs_while_the_store_is_out(operation: Operation, out: dict[str, Any]) -> None:
    if operation is Op.ARCHIVING:
        out = {**out, "store_out": True}  # one archive alone has a limit: test_leaving.py
    row, seen = during(operation)
    assert tick(row, replace(seen, **out), 10**6).status.error_reason is None


@pytest.mark.parametrize("operation", [o for o in BUSY if o is not Op.DELETING])
def test_an_outage_does_not_count(operation: Operation) -> None:
    row, seen = during(operation)
    limit = RULES.time_limits[operation].total_seconds()
    back = replace(seen, deadline_from=b.later(9000))
    assert tick(row, back, 9000 + limit).status.error_reason is None
    assert tick(row, back, 9000 + limit + 1).status.operation is Op.NONE


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


def test_a_machine_in_distress_is_not_the_workspaces_failure() -> None:
    """It ends what runs on it, again and again: that is an outage, however often, and says why."""
    row, deaths = up(), 0
    for now in range(5, 600, 5):
        life = Life.READY if row.status.operation is Op.STARTING else Life.DEAD
        instance = InstanceSeen(life, row.status.home_ctx.instance_op, message="The node was low.", blameless=True)
        row = replace(row, status=tick(row, replace(ALIVE, instance=instance), now, b.op(1000 + now)).status)
        assert (row.status.phase is not P.ERROR, row.status.error_count) == (True, 0)
        if row.status.error_reason is E.UNREACHABLE:
            deaths += 1
            assert "The node was low." in row.status.conditions.healthy.message
    assert deaths > 10


@pytest.mark.parametrize(("lived", "count"), [(59, 2), (60, 0), (600, 0), (-86_400, 0)])
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
