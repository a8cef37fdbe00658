"""The reserve of a disk: when it is touched, and what is asked for then."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from codehub.model.disk import NOTABLE, DiskSpace, HomeUse, Scarce, relief
from codehub.model.workspace import Desired, Operation, Phase, Workspace, WorkspaceId
from tests.model.builders import NOW, in_phase

GIB = 1 << 30
MUCH = 10 * NOTABLE[Scarce.BYTES]


@pytest.mark.parametrize(
    ("total", "configured", "reserve"),
    [(20 * GIB, None, GIB), (1000 * GIB, None, 2 * GIB), (20 * GIB, 5 * GIB, 5 * GIB), (20 * GIB, 0, 0)],
)
def test_five_percent_at_most_two_gib_or_what_is_configured(total: int, configured: int | None, reserve: int) -> None:
    assert DiskSpace(total, 0).reserve(configured) == reserve
    assert DiskSpace(total, reserve).shortage(configured) is None
    assert (DiskSpace(total, reserve - 1).shortage(configured) is None) == (reserve == 0 and reserve - 1 >= 0)


@pytest.mark.parametrize(
    ("total", "configured", "reserve"), [(1000, None, 50), (10_000_000, None, 65536), (1000, GIB, 50), (1000, 0, 0)]
)
def test_room_for_files_is_kept_free_too(total: int, configured: int | None, reserve: int) -> None:
    def with_free(files: int) -> DiskSpace:
        return DiskSpace(100 * GIB, 50 * GIB, total, files)

    assert with_free(0).reserve_files(configured) == reserve
    assert with_free(reserve).shortage(configured) is None
    shortage = with_free(max(0, reserve - 1)).shortage(configured)
    assert (shortage.scarce if shortage else None) is (Scarce.FILES if reserve else None)


def test_a_file_system_that_makes_room_for_files_as_needed_has_enough() -> None:
    assert DiskSpace(100 * GIB, 50 * GIB, 0, 0).shortage(None) is None


def test_homes_are_looked_at_shortly_before_the_reserve_is_touched() -> None:
    assert DiskSpace(20 * GIB, 5 * GIB // 4).nearly_scarce(None) is None
    assert DiskSpace(20 * GIB, 5 * GIB // 4 - 1).nearly_scarce(None) is Scarce.BYTES
    assert DiskSpace(20 * GIB, 9 * GIB, 1000, 62).nearly_scarce(None) is Scarce.FILES


def one(number: int, phase: Phase, *, operation: Operation = Operation.NONE, desired: str = "") -> Workspace:
    made = in_phase(phase, operation, desired_state=Desired(desired or phase.value))
    return replace(made, id=WorkspaceId(UUID(int=number)))


def asked(
    workspaces: list[Workspace],
    uses: Mapping[WorkspaceId, HomeUse | None],
    *,
    scarce: Scarce = Scarce.BYTES,
    is_lasting: bool = False,
) -> dict[WorkspaceId, str]:
    found = relief(workspaces, uses, scarce, NOW, is_lasting=is_lasting)
    assert len({each.id for each, _ in found}) == len(found)
    assert all("disk" in transition.because for _, transition in found)
    return {each.id: transition.to.value for each, transition in found}


QUIET, SMALL, LARGE = one(2, Phase.RUNNING), one(3, Phase.RUNNING), one(4, Phase.RUNNING)


def test_all_that_stands_by_is_archived_and_what_grew_most_is_stopped() -> None:
    standing = one(1, Phase.STANDBY)
    uses = {QUIET.id: HomeUse(90 * MUCH, 0), SMALL.id: HomeUse(MUCH, MUCH), LARGE.id: HomeUse(2 * MUCH, 2 * MUCH)}
    assert asked([standing, QUIET, SMALL, LARGE], uses) == {standing.id: "ARCHIVED", LARGE.id: "STANDBY"}


@pytest.mark.parametrize("growth", [0, -MUCH, NOTABLE[Scarce.BYTES] - 1])
def test_nobody_is_stopped_at_once_who_did_not_grow(growth: int) -> None:
    assert asked([QUIET], {QUIET.id: HomeUse(MUCH, growth)}) == {}
    assert asked([QUIET], {}) == {}


def test_whoever_cannot_be_measured_counts_as_the_one_that_grew_the_most() -> None:
    uses = {QUIET.id: None, LARGE.id: HomeUse(90 * MUCH, 90 * MUCH)}
    for is_lasting in (False, True):
        assert asked([QUIET, LARGE], uses, is_lasting=is_lasting) == {QUIET.id: "STANDBY"}


def test_who_fills_the_disk_and_sits_still_is_stopped_after_a_while_and_not_those_who_work() -> None:
    uses = {SMALL.id: HomeUse(2 * MUCH, MUCH), LARGE.id: HomeUse(90 * MUCH, 0)}
    assert asked([SMALL, LARGE], uses) == {SMALL.id: "STANDBY"}
    assert asked([SMALL, LARGE], uses, is_lasting=True) == {LARGE.id: "STANDBY"}
    assert asked([SMALL], {SMALL.id: HomeUse(9, 0)}, is_lasting=True) == {}, "that would free nothing"


def test_files_count_where_they_are_scarce() -> None:
    assert asked([SMALL], {SMALL.id: HomeUse(1000, 200)}, scarce=Scarce.FILES) == {SMALL.id: "STANDBY"}
    assert asked([SMALL], {SMALL.id: HomeUse(1000, 200)}, scarce=Scarce.BYTES) == {}


def test_what_is_on_its_way_is_left_alone() -> None:
    busy = [
        one(1, Phase.STANDBY, operation=Operation.ARCHIVING),
        one(2, Phase.STANDBY, desired="RUNNING"),
        one(3, Phase.RUNNING, desired="STANDBY"),
        one(4, Phase.ARCHIVED),
    ]
    assert asked(busy, {each.id: HomeUse(MUCH, MUCH) for each in busy}) == {}
    assert asked(busy, dict.fromkeys((each.id for each in busy), None)) == {}
