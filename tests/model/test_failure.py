"""Failure: which errors end retrying, how long each pause is, and what an outage is not."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.failure import (
    LONGEST_DELAY,
    Fault,
    Rules,
    after_failure,
    backoff,
    ending_fault,
    is_terminal,
    is_waiting,
    outage_backoff,
)
from codehub.model.workspace import ErrorReason, Operation, Phase, Workspace
from tests.model import builders as b

E = ErrorReason
RULES = Rules()
AT_ONCE = {
    E.TIMEOUT,
    E.DATA_LOST,
    E.IMAGE_PULL_FAILED,
    E.CONTAINER_WITHOUT_VOLUME,
    E.ARCHIVE_CORRUPTED,
    E.ARCHIVE_ACCESS_ERROR,
    E.VOLUME_UNKNOWN,
}
reasons = st.sampled_from(E)


def failing(
    reason: ErrorReason | None, count: int = 0, *, message: str = "It broke.", deleted: bool = False
) -> Workspace:
    seen = b.conditions(volume=True)
    said = b.condition(True)
    now = b.status(
        phase=Phase.STANDBY,
        operation=Operation.STARTING,
        op_id=b.OP,
        op_started_at=b.NOW,
        error_reason=reason,
        error_count=count,
        conditions=seen.with_health(said.seen_as(True, "AllConditionsMet", message, b.NOW)),
    )
    return b.workspace(now=now, deleted_at=b.NOW if deleted else None)


def test_the_pauses_double_from_a_second_to_five_minutes() -> None:
    pauses = [backoff(attempts).total_seconds() for attempts in range(1, 13)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


@given(st.integers(-5, 10**9), st.integers(-5, 10**9))
@settings(max_examples=100)
def test_more_failures_never_mean_a_shorter_pause(one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    assert timedelta(0) <= backoff(fewer) <= backoff(more) <= timedelta(minutes=5)


@given(st.timedeltas(timedelta(0), timedelta(days=30)), st.timedeltas(timedelta(0), timedelta(days=30)))
@settings(max_examples=100)
def test_the_longer_an_outage_the_longer_the_pauses(one: timedelta, other: timedelta) -> None:
    shorter, longer = sorted((one, other))
    assert timedelta(seconds=1) <= outage_backoff(shorter) <= outage_backoff(longer) <= timedelta(minutes=5)


@pytest.mark.parametrize("reason", E)
def test_the_terminal_errors_are_those_of_the_table(reason: ErrorReason) -> None:
    assert is_terminal(reason) is (reason in AT_ONCE or reason is E.RETRY_EXCEEDED)
    fault = ending_fault(failing(reason, count=1), RULES)
    assert (fault is not None) is is_terminal(reason)


def test_no_error_is_not_terminal() -> None:
    assert not is_terminal(None)
    assert ending_fault(failing(None, count=99), RULES) is None


@pytest.mark.parametrize("reason", sorted(AT_ONCE))
def test_a_terminal_error_keeps_its_own_name(reason: ErrorReason) -> None:
    fault = ending_fault(failing(reason), RULES)
    assert fault is not None
    assert fault.reason is reason


@pytest.mark.parametrize(("max_retry", "count", "over"), [(3, 1, False), (3, 2, False), (3, 3, True), (1, 1, True)])
def test_retries_are_exceeded_at_their_limit_and_the_last_cause_is_named(
    max_retry: int, count: int, over: bool
) -> None:
    fault = ending_fault(failing(E.ACTION_FAILED, count, message="No space left."), Rules(max_retry=max_retry))
    assert fault == (Fault(E.RETRY_EXCEEDED, "No space left.") if over else None)


def test_three_failures_in_a_row_are_the_end() -> None:
    row = failing(None)
    for attempt in (1, 2, 3):
        assert ending_fault(row, RULES) is None
        row = b.with_status(row, **changed(row, E.ACTION_FAILED, attempt))
        assert row.status.error_count == attempt
    assert ending_fault(row, RULES) == Fault(E.RETRY_EXCEEDED, "attempt 3")


def changed(row: Workspace, reason: ErrorReason, attempt: int) -> dict[str, object]:
    after = after_failure(row, Fault(reason, f"attempt {attempt}"), b.NOW)
    names = ("conditions", "error_reason", "error_count", "retry_at")
    return {name: getattr(after, name) for name in names}


@given(st.integers(0, 1000), st.integers(0, 10**6))
@settings(max_examples=100)
def test_an_outage_is_never_counted_and_never_ends_anything(count: int, waited: int) -> None:
    row = failing(E.UNREACHABLE, count)
    now = b.later(waited)
    after = after_failure(row, Fault(E.UNREACHABLE, "The engine is away."), now)
    assert (after.error_reason, after.error_count) == (E.UNREACHABLE, count)
    assert after.retry_at is not None
    assert now < after.retry_at <= now + timedelta(minutes=5)
    assert ending_fault(b.with_status(row, error_reason=E.UNREACHABLE, error_count=count), RULES) is None


@given(reasons, st.integers(0, 1000))
@settings(max_examples=100)
def test_once_deleted_nothing_is_terminal(reason: ErrorReason, count: int) -> None:
    assert ending_fault(failing(reason, count, deleted=True), RULES) is None


@given(st.none() | reasons, st.integers(0, 10), reasons)
@settings(max_examples=100)
def test_a_failure_never_ends_the_operation_itself(before: ErrorReason | None, count: int, reason: ErrorReason) -> None:
    row = failing(before, count)
    after = after_failure(row, Fault(reason, "It broke."), b.later(5))
    kept = ("operation", "op_id", "op_started_at", "phase", "archive_key", "home_ctx")
    assert [getattr(after, name) for name in kept] == [getattr(row.status, name) for name in kept]
    assert after.retry_at is not None
    assert after.retry_at > b.later(5)


@pytest.mark.parametrize("reason", [E.ACTION_FAILED, E.IMAGE_PULL_FAILED, E.UNREACHABLE])
def test_the_message_for_people_is_kept_and_health_is_not_judged_yet(reason: ErrorReason) -> None:
    after = after_failure(failing(None), Fault(reason, "The engine said no."), b.NOW)
    assert after.conditions.healthy.message == "The engine said no."
    assert after.conditions.healthy.status
    assert after.conditions.volume_ready.status


@pytest.mark.parametrize("reason", sorted(AT_ONCE | {E.RETRY_EXCEEDED}))
def test_a_failure_while_tidying_up_does_not_hide_the_error(reason: ErrorReason) -> None:
    row = failing(reason, 3, message="The first cause.")
    after = after_failure(row, Fault(E.ACTION_FAILED, "And then this."), b.NOW)
    assert (after.error_reason, after.error_count) == (reason, 3)
    assert after.conditions.healthy.message == "The first cause."


def test_the_pause_lasts_until_its_time_has_come() -> None:
    waiting = b.status(retry_at=b.later(10))
    assert is_waiting(waiting, b.later(9.9))
    assert not is_waiting(waiting, b.later(10))
    assert not is_waiting(b.status(), b.NOW)


def test_an_outage_that_began_before_the_clock_jumped_back_is_not_asked_about_each_second() -> None:
    assert outage_backoff(timedelta(days=-1)) == timedelta(minutes=1)


def test_no_pause_is_longer_than_the_longest_although_the_clock_jumped_back_by_a_day() -> None:
    longest = b.status(retry_at=b.NOW + LONGEST_DELAY)
    assert is_waiting(longest, b.NOW)
    assert not is_waiting(longest, b.later(-1))
    assert not is_waiting(longest, b.later(-86_400))


@pytest.mark.parametrize("operation", [o for o in Operation if o is not Operation.NONE])
def test_every_operation_has_a_time_limit(operation: Operation) -> None:
    assert RULES.time_limits[operation] > timedelta(0)
