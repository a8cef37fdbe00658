"""The queue of storage jobs: who goes first, and how many go."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from codehub.model.job_queue import JobLimits, Waiting, admitted, in_order, jobs_of_machine
from codehub.model.workspace import UserId, WorkspaceId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADA, BOB, EVE = (UserId(UUID(int=number)) for number in (1, 2, 3))
MANY = JobLimits(in_all=100, per_node=100)


def waiting(number: int, owner: UserId = ADA, *, is_restore: bool = False, node: str = "") -> Waiting:
    """The greater the number, the later it came."""
    since = NOON + timedelta(seconds=number)
    return Waiting(
        workspace_id=WorkspaceId(UUID(int=number)), owner=owner, since=since, is_restore=is_restore, node=node
    )


def numbers(queue: object) -> list[int]:
    assert isinstance(queue, list)
    return [one.workspace_id.int for one in queue]


def test_owners_take_turns_and_each_ones_oldest_goes_first() -> None:
    queue = in_order([waiting(3), waiting(1), waiting(2), waiting(4, BOB), waiting(5, EVE)], {})
    assert numbers(queue) == [1, 4, 5, 2, 3]


def test_who_was_served_last_is_last() -> None:
    queue = in_order([waiting(1), waiting(2), waiting(3, BOB), waiting(4, EVE)], {ADA: 7, BOB: 3})
    assert numbers(queue) == [4, 3, 1, 2]


def test_with_one_place_an_owner_of_many_does_not_hold_up_another() -> None:
    left = [*(waiting(number) for number in range(300)), waiting(1000, BOB)]
    turns: dict[UserId, int] = {}
    served = []
    for turn in range(4):
        (one,) = admitted(in_order(left, turns), {}, JobLimits(in_all=1, per_node=1))
        left.remove(one)
        turns[one.owner] = turn
        served.append(one.owner)
    assert served == [ADA, BOB, ADA, ADA]


def test_restores_go_before_archives_however_late_they_come() -> None:
    queue = in_order([waiting(1), waiting(2, BOB), waiting(9, is_restore=True)], {ADA: 5})
    assert numbers(queue) == [9, 2, 1]


def test_no_more_than_the_limit_in_all() -> None:
    queue = in_order([waiting(number, is_restore=True) for number in range(300)], {})
    assert len(admitted(queue, {"": 3}, JobLimits(in_all=8, per_node=2))) == 5
    assert admitted(queue, {"": 8}, JobLimits(in_all=8, per_node=2)) == []


def test_one_place_is_left_to_restores() -> None:
    limits = JobLimits(in_all=4, per_node=4)
    archives = [waiting(number) for number in range(10)]
    assert len(admitted(in_order(archives, {}), {}, limits)) == 3
    late = waiting(99, is_restore=True)
    assert admitted(in_order([*archives, late], {}), {"": 3}, limits) == [late]


def test_where_there_is_one_place_archives_get_it_too() -> None:
    assert len(admitted([waiting(1)], {}, JobLimits(in_all=1, per_node=1))) == 1


def test_a_full_node_holds_up_its_own_alone() -> None:
    queue = in_order([waiting(1, node="a"), waiting(2, BOB, node="a"), waiting(3, EVE, node="b")], {})
    assert numbers(admitted(queue, {"a": 3}, JobLimits(in_all=100, per_node=4))) == [3]


def test_where_the_cluster_chooses_the_node_only_the_total_counts() -> None:
    assert len(admitted([waiting(number) for number in range(10)], {}, JobLimits(in_all=9, per_node=1))) == 8


def test_what_a_machine_bears() -> None:
    assert jobs_of_machine(16, 64 << 30) == 16
    assert jobs_of_machine(16, 6 << 30) == 6
    assert jobs_of_machine(1, 1 << 30) == 2
