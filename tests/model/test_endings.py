"""How operations end in ERROR, and how ERROR lasts."""

from dataclasses import replace

import pytest

from codehub.model import actions as a
from codehub.model.observation import InstanceSeen, JobState, Life
from codehub.model.workspace import (
    ErrorReason,
    Operation,
    RecoverFrom,
    RecoverRequest,
)
from tests.model import builders as b
from tests.model.ticking import (
    ALIVE,
    AT_REST,
    A,
    E,
    Op,
    P,
    during,
    job,
    row_with,
    tick,
    ticked,
    up,
)

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
    assert (ended.operation, ended.op_id) == (Op.NONE, b.OP)
    if operation is Op.ARCHIVING:
        assert (ended.phase, ended.error_reason) == (P.STANDBY, E.ACTION_FAILED)
        return
    assert ended.phase is P.ERROR
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
