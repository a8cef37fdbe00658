"""The reserve of a disk: when it is touched, and what is asked for then."""

from dataclasses import replace
from uuid import UUID

import pytest

from codehub.model.disk import NOTABLE_GROWTH_BYTES, DiskSpace, relief
from codehub.model.workspace import Desired, Operation, Phase, Workspace, WorkspaceId
from tests.model.builders import NOW, in_phase

GIB = 1 << 30
MUCH = 10 * NOTABLE_GROWTH_BYTES


@pytest.mark.parametrize(
    ("total", "configured", "reserve"),
    [(20 * GIB, None, GIB), (1000 * GIB, None, 2 * GIB), (20 * GIB, 5 * GIB, 5 * GIB), (20 * GIB, 0, 0)],
)
def test_five_percent_at_most_two_gib_or_what_is_configured(total: int, configured: int | None, reserve: int) -> None:
    assert DiskSpace(total, 0).reserve(configured) == reserve
    assert DiskSpace(total, reserve).shortage(configured) is None
    assert (DiskSpace(total, reserve - 1).shortage(configured) is None) == (reserve == 0 and reserve - 1 >= 0)


def one(number: int, phase: Phase, *, operation: Operation = Operation.NONE, desired: str = "") -> Workspace:
    made = in_phase(phase, operation, desired_state=Desired(desired or phase.value))
    return replace(made, id=WorkspaceId(UUID(int=number)))


def test_all_that_stands_by_is_archived_and_what_grew_most_is_stopped() -> None:
    standing, small, large = one(1, Phase.STANDBY), one(2, Phase.RUNNING), one(3, Phase.RUNNING)
    asked = relief([standing, small, large], {small.id: MUCH, large.id: 2 * MUCH}, NOW)
    assert {(each.id, transition.to) for each, transition in asked} == {
        (standing.id, Desired.ARCHIVED),
        (large.id, Desired.STANDBY),
    }
    assert all("disk" in transition.because for _, transition in asked)


@pytest.mark.parametrize("growth", [{}, {WorkspaceId(UUID(int=2)): 0}, {WorkspaceId(UUID(int=2)): -MUCH},
                                    {WorkspaceId(UUID(int=2)): NOTABLE_GROWTH_BYTES - 1}])  # fmt: skip
def test_nobody_is_stopped_who_did_not_grow(growth: dict[WorkspaceId, int]) -> None:
    assert relief([one(2, Phase.RUNNING)], growth, NOW) == []


def test_what_is_on_its_way_is_left_alone() -> None:
    busy = [
        one(1, Phase.STANDBY, operation=Operation.ARCHIVING),
        one(2, Phase.STANDBY, desired="RUNNING"),
        one(3, Phase.RUNNING, desired="STANDBY"),
        one(4, Phase.ARCHIVED),
    ]
    assert relief(busy, {each.id: MUCH for each in busy}, NOW) == []
