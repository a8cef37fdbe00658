"""Limits: one more may run only while both the user's and everybody's places last."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.limits import Quota, Usage, refusal

QUOTA = Quota(per_user=2, total=100, workspaces=200)
numbers = st.integers(0, 200)


@pytest.mark.parametrize(
    ("user", "total", "allowed"),
    [(0, 0, True), (1, 99, True), (2, 2, False), (3, 3, False), (0, 100, False), (1, 101, False), (2, 100, False)],
)
def test_the_default_limits(user: int, total: int, allowed: bool) -> None:
    assert (refusal(Usage(user, total), QUOTA) is None) is allowed


@given(numbers, numbers, numbers, numbers)
@settings(max_examples=60)
def test_admitting_one_more_never_overshoots_and_no_free_place_is_refused(
    user: int, total: int, per_user: int, places: int
) -> None:
    allowed = refusal(Usage(user, total), Quota(per_user, places, workspaces=1)) is None
    assert allowed is (user + 1 <= per_user and total + 1 <= places)


def test_the_refusal_says_what_to_do() -> None:
    assert refusal(Usage(2, 100), QUOTA) == "You have 2 running workspaces, the most you may have. Stop one first."
    assert refusal(Usage(0, 100), QUOTA) == "All 100 places for running workspaces are taken. Try again later."
