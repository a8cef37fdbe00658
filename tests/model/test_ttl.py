"""TTL: an unused workspace stops, a stopped one is archived, and nobody's wish is overridden."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.ttl import due, is_valid_ttl, next_transition
from codehub.model.workspace import Desired, Operation, Phase, Workspace
from tests.model import builders as b

TTL = 600
TICK = timedelta(microseconds=1)
moments = st.integers(-100_000, 100_000).map(b.later)
maybe = st.none() | moments
ttls = st.just(0) | st.integers(60, 100_000)
LONG_AFTER = b.later(10**8)


def at_rest(phase: Phase, *, since: datetime = b.NOW, **wish: Any) -> Workspace:
    wish = {"desired_state": Desired(phase.value), "standby_ttl_seconds": TTL, "archive_ttl_seconds": TTL, **wish}
    return b.workspace(now=b.status(phase=phase, phase_changed_at=since), **wish)


any_workspace = st.builds(
    lambda phase, operation, changed, wish: b.workspace(
        now=b.status(phase=phase, operation=operation, phase_changed_at=changed), **wish
    ),
    st.sampled_from(Phase),
    st.sampled_from(Operation),
    moments,
    st.fixed_dictionaries(
        {
            "desired_state": st.sampled_from(Desired),
            "deleted_at": maybe,
            "keep_awake_until": maybe,
            "last_access_at": maybe,
            "standby_ttl_seconds": ttls,
            "archive_ttl_seconds": ttls,
        }
    ),
)
settled_workspace = st.builds(
    lambda phase, changed, wish: at_rest(phase, since=changed, **wish),
    st.sampled_from([Phase.RUNNING, Phase.STANDBY]),
    moments,
    st.fixed_dictionaries({"keep_awake_until": maybe, "last_access_at": maybe, "standby_ttl_seconds": ttls}),
)


def test_it_acts_only_where_the_wish_has_come_true() -> None:
    acts = {
        (Phase.RUNNING, Desired.RUNNING, Operation.NONE): Desired.STANDBY,
        (Phase.STANDBY, Desired.STANDBY, Operation.NONE): Desired.ARCHIVED,
    }
    for phase, desired, operation in product(Phase, Desired, Operation):
        found = due(b.in_phase(phase, operation, desired_state=desired), LONG_AFTER)
        expected = acts.get((phase, desired, operation))
        assert (found.to if found else None) == expected, (phase, desired, operation)


@given(any_workspace, moments)
@settings(max_examples=150)
def test_a_wish_on_its_way_is_never_overridden(row: Workspace, now: datetime) -> None:
    if due(row, now) is not None:
        assert row.wish.desired_state.value == row.status.phase.value
        assert row.status.operation is Operation.NONE
        assert row.wish.deleted_at is None
        assert row.wish.desired_state in (Desired.RUNNING, Desired.STANDBY)


@pytest.mark.parametrize(
    ("changed", "accessed", "awake", "counted_from"),
    [
        (0, None, None, 0),  # never accessed: since it became RUNNING
        (0, 50, None, 50),
        (50, 0, None, 50),
        (0, None, 90, 90),
        (0, 50, 90, 90),
        (0, 90, 50, 90),
        (90, 50, 0, 90),
        (0, -50, -90, 0),
    ],
)
def test_standby_counts_from_the_latest_of_three_times(
    changed: int, accessed: int | None, awake: int | None, counted_from: int
) -> None:
    row = at_rest(
        Phase.RUNNING,
        since=b.later(changed),
        last_access_at=None if accessed is None else b.later(accessed),
        keep_awake_until=None if awake is None else b.later(awake),
    )
    assert due(row, b.later(counted_from + TTL)) is None
    found = due(row, b.later(counted_from + TTL) + TICK)
    assert found is not None
    assert (found.to, found.at) == (Desired.STANDBY, b.later(counted_from + TTL))


def test_archiving_counts_from_when_it_was_stopped_whatever_else_happened() -> None:
    row = at_rest(Phase.STANDBY, last_access_at=b.later(9999), keep_awake_until=b.later(9999))
    found = next_transition(row)
    assert found is not None
    assert (found.to, found.at) == (Desired.ARCHIVED, b.later(TTL))


@pytest.mark.parametrize(
    ("phase", "ttl"), [(Phase.RUNNING, "standby_ttl_seconds"), (Phase.STANDBY, "archive_ttl_seconds")]
)
def test_zero_means_never(phase: Phase, ttl: str) -> None:
    never: dict[str, Any] = {ttl: 0}
    assert next_transition(at_rest(phase, **never)) is None
    assert due(at_rest(phase, **never), LONG_AFTER) is None
    assert next_transition(at_rest(phase)) is not None


@given(settled_workspace, moments)
@settings(max_examples=100)
def test_while_it_is_to_be_kept_awake_it_is(row: Workspace, now: datetime) -> None:
    awake = row.wish.keep_awake_until
    if row.status.phase is Phase.RUNNING and awake is not None and now <= awake:
        assert due(row, now) is None


@given(settled_workspace, moments)
@settings(max_examples=100)
def test_what_is_announced_is_what_happens_and_when(row: Workspace, now: datetime) -> None:
    coming = next_transition(row)
    if coming is None:
        assert due(row, LONG_AFTER) is None
        return
    assert due(row, coming.at) is None
    assert due(row, coming.at + TICK) == coming
    assert due(row, now) == (coming if now > coming.at else None)


@pytest.mark.parametrize(
    ("wish", "because"),
    [
        ({}, "10 min since it was started"),
        ({"last_access_at": b.later(5)}, "10 min since it was last used"),
        ({"keep_awake_until": b.later(5)}, "10 min after it was kept awake"),
    ],
)
def test_it_says_why(wish: dict[str, Any], because: str) -> None:
    found = next_transition(at_rest(Phase.RUNNING, **wish))
    assert found is not None
    assert found.because == because


@pytest.mark.parametrize(
    ("seconds", "valid"), [(0, True), (1, False), (59, False), (60, True), (86400, True), (-1, False), (-60, False)]
)
def test_a_ttl_is_never_or_at_least_a_minute(seconds: int, valid: bool) -> None:
    assert is_valid_ttl(seconds) is valid
