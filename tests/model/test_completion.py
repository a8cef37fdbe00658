"""Completion: only what is observed completes an operation; what completing and starting one write."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.completion import completed, is_complete, started
from codehub.model.conditions import Condition, Conditions
from codehub.model.names import archive_key
from codehub.model.observation import InstanceSeen, JobSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.workspace import (
    MAX_RETIRED,
    ArchiveKey,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    Phase,
    Status,
    VolumeState,
    Workspace,
)
from tests.model import builders as b

Op, V = Operation, VolumeState
KEY = archive_key(b.WORKSPACE, b.OP)
OLD_KEY = archive_key(b.WORKSPACE, b.op(5))
OLD = Incarnation("old")
STRANGER = VolumeSeen(True, Incarnation("stranger"))
OWN = VolumeSeen(True, b.MADE, "u1")
BUSY = [operation for operation in Op if operation is not Op.NONE]


def during(
    operation: Operation,
    volume: VolumeState = V.NONE,
    *,
    container_ready: bool = False,
    volume_ready: bool = False,
    archive_ready: bool = False,
    marker: ArchiveKey | None = None,
    uid: str | None = "u1",
    **status: Any,
) -> Workspace:
    home = HomeContext(
        volume=volume, incarnation=b.MADE, uid=uid, restore_marker=marker, retired=(OLD,), instance_op=b.OP
    )
    seen = b.conditions(volume=volume_ready, archive=archive_ready, container=container_ready)
    status = {"op_id": b.OP, "op_started_at": b.NOW, "home_ctx": home, "conditions": seen, **status}
    return b.workspace(now=b.status(operation=operation, **status))


def seeing(volume: VolumeSeen | None = b.NO_VOLUME, instance: InstanceSeen | None = b.ABSENT) -> Seen:
    return Seen(volume=volume, instance=instance, jobs=())


COMPLETE = {
    "a blank home was made": (during(Op.PROVISIONING), seeing(OWN)),
    "the archive was unpacked": (during(Op.RESTORING, V.RESTORING, marker=KEY, archive_key=KEY), seeing(OWN)),
    "the container is ready": (
        during(Op.STARTING, V.LIVE, container_ready=True, volume_ready=True),
        seeing(OWN, b.running(b.OP)),
    ),
    "the container is gone": (during(Op.STOPPING, V.LIVE), seeing(OWN)),
    "the home is in the archive": (
        during(Op.ARCHIVING, V.CONDEMNED, archive_ready=True, archive_key=KEY),
        seeing(),
    ),
    "a leftover is gone": (
        during(Op.ARCHIVING, V.CONDEMNED, archive_ready=True, archive_key=OLD_KEY, phase=Phase.ARCHIVED),
        seeing(),
    ),
    "the first archive was made": (during(Op.CREATE_EMPTY_ARCHIVE, archive_ready=True, archive_key=KEY), seeing()),
    "all is gone": (during(Op.DELETING, V.CONDEMNED), seeing()),
    "all that was ours is gone": (during(Op.DELETING, V.CONDEMNED), seeing(STRANGER)),
}

INCOMPLETE = {
    "nothing is in progress": (during(Op.NONE), seeing(OWN)),
    "no volume yet": (during(Op.PROVISIONING), seeing()),
    "an old volume is in the way": (during(Op.PROVISIONING), seeing(VolumeSeen(True, OLD))),
    "a stranger is in the way": (during(Op.PROVISIONING), seeing(STRANGER)),
    "the volume could not be looked at": (during(Op.PROVISIONING), seeing(None)),
    "no marker": (during(Op.RESTORING, V.RESTORING, archive_key=KEY), seeing(OWN)),
    "an old marker": (during(Op.RESTORING, V.RESTORING, marker=OLD_KEY, archive_key=KEY), seeing(OWN)),
    "no archive at all": (during(Op.RESTORING, V.RESTORING), seeing(OWN)),
    "restored and vanished": (during(Op.RESTORING, V.RESTORING, marker=KEY, archive_key=KEY), seeing()),
    "restored into another one": (
        during(Op.RESTORING, V.RESTORING, marker=KEY, archive_key=KEY, uid="u2"),
        seeing(OWN),
    ),
    "restored into an old one": (
        during(Op.RESTORING, V.RESTORING, marker=KEY, archive_key=KEY),
        seeing(VolumeSeen(True, OLD, "u1")),
    ),
    "alive, not ready": (during(Op.STARTING, V.LIVE, volume_ready=True), seeing(OWN, InstanceSeen(Life.ALIVE, b.OP))),
    "ready, without a home": (during(Op.STARTING, V.LIVE, container_ready=True), seeing(b.NO_VOLUME, b.running(b.OP))),
    "the container exists": (during(Op.STOPPING, V.LIVE), seeing(OWN, b.running(b.OP))),
    "the container is dead and exists": (during(Op.STOPPING, V.LIVE), seeing(OWN, InstanceSeen(Life.DEAD, b.OP))),
    "the container could not be looked at": (during(Op.STOPPING, V.LIVE), seeing(OWN, None)),
    "not committed": (during(Op.ARCHIVING, V.LIVE, archive_ready=True, archive_key=OLD_KEY), seeing()),
    "never committed": (during(Op.ARCHIVING, V.LIVE), seeing()),
    "the volume is there": (during(Op.ARCHIVING, V.CONDEMNED, archive_ready=True, archive_key=KEY), seeing(OWN)),
    "the volume was not seen": (during(Op.ARCHIVING, V.CONDEMNED, archive_ready=True, archive_key=KEY), seeing(None)),
    "the archive is not ready": (during(Op.ARCHIVING, V.CONDEMNED, archive_key=KEY), seeing()),
    "no key yet": (during(Op.CREATE_EMPTY_ARCHIVE), seeing()),
    "a key, not there": (during(Op.CREATE_EMPTY_ARCHIVE, archive_key=KEY), seeing()),
    "a container is left": (during(Op.DELETING, V.CONDEMNED), seeing(b.NO_VOLUME, b.running(b.OP))),
    "a volume is left": (during(Op.DELETING, V.CONDEMNED), seeing(OWN)),
    "an older volume is left": (during(Op.DELETING, V.CONDEMNED), seeing(VolumeSeen(True, OLD))),
    "what is left was not seen": (during(Op.DELETING, V.CONDEMNED), seeing(None)),
    "who is left was not seen": (during(Op.DELETING, V.CONDEMNED), seeing(b.NO_VOLUME, None)),
}


@pytest.mark.parametrize("case", COMPLETE)
def test_it_is_complete_when(case: str) -> None:
    row, seen = COMPLETE[case]
    assert is_complete(row, seen)


def test_a_deletion_is_not_complete_because_a_listing_lacks_the_volume() -> None:
    row = during(Op.DELETING, V.CONDEMNED, conditions=Conditions())
    row = replace(row, wish=replace(row.wish, deleted_at=b.NOW))
    unlisted = seeing(VolumeSeen(exists=False))
    assert not is_complete(row, unlisted)
    seen_gone = Conditions(volume_ready=Condition(False, "VolumeNotFound"))
    assert is_complete(replace(row, status=replace(row.status, conditions=seen_gone)), unlisted)
    assert is_complete(row, seeing(b.NO_VOLUME))


@pytest.mark.parametrize("case", INCOMPLETE)
def test_it_is_not_complete_when(case: str) -> None:
    row, seen = INCOMPLETE[case]
    assert not is_complete(row, seen)


def test_every_operation_can_be_complete() -> None:
    assert {row.status.operation for row, _ in COMPLETE.values()} == set(BUSY)


@pytest.mark.parametrize("case", COMPLETE)
def test_nothing_completes_while_a_job_exists(case: str) -> None:
    row, seen = COMPLETE[case]
    for op_id, state in product((b.OP, b.op(5)), JobState):  # its own, or an earlier operation's
        assert not is_complete(row, replace(seen, jobs=(JobSeen(op_id, state),))), (op_id, state)


@pytest.mark.parametrize("case", COMPLETE)
def test_nothing_completes_while_jobs_could_not_be_looked_at(case: str) -> None:
    row, seen = COMPLETE[case]
    assert not is_complete(row, replace(seen, jobs=None))


# -- what completing writes -----------------------------------------------------------------------------------------


def after(case: str, **status: Any) -> Status:
    row, seen = COMPLETE[case]
    return completed(b.with_status(row, **status), seen)


@pytest.mark.parametrize("case", COMPLETE)
def test_completing_clears_the_operation_and_its_error_and_keeps_op_id(case: str) -> None:
    found = after(case, error_reason=ErrorReason.ACTION_FAILED, error_count=2, retry_at=b.NOW)
    assert found.operation is Op.NONE
    assert found.op_id == b.OP
    assert (found.op_started_at, found.error_reason, found.retry_at) == (None, None, None)
    assert found.archive_key == COMPLETE[case][0].status.archive_key


@pytest.mark.parametrize("case", COMPLETE)
def test_only_a_start_keeps_its_count_until_it_stayed_alive(case: str) -> None:
    starting = case == "the container is ready"
    assert after(case, error_count=2).error_count == (2 if starting else 0)


@pytest.mark.parametrize("case", ["a blank home was made", "the archive was unpacked"])
def test_the_volume_becomes_live_and_is_remembered_by_its_uid(case: str) -> None:
    found = after(case).home_ctx
    assert (found.volume, found.incarnation, found.uid) == (V.LIVE, b.MADE, "u1")


@pytest.mark.parametrize("case", ["the home is in the archive", "a leftover is gone", "all is gone"])
def test_a_volume_that_is_gone_is_no_longer_remembered_as_a_home(case: str) -> None:
    found = after(case).home_ctx
    assert (found.volume, found.uid, found.restore_marker) == (V.NONE, None, None)
    assert found.knows(b.MADE)  # if it turns up late after all, it may be removed
    assert found.knows(OLD)


def test_a_stopped_instance_is_nobodys_any_more() -> None:
    found = after("the container is gone")
    assert (found.home_ctx.instance_op, found.endpoint, found.home_ctx.volume) == (None, None, V.LIVE)


def test_only_a_start_has_an_endpoint() -> None:
    assert {case: after(case, endpoint="stale:1").endpoint for case in COMPLETE} == {
        case: "127.0.0.1:8080" if case == "the container is ready" else None for case in COMPLETE
    }


# -- what starting writes -------------------------------------------------------------------------------------------

BEFORE = HomeContext(
    volume=V.LIVE, incarnation=b.MADE, uid="u1", restore_marker=OLD_KEY, retired=(OLD,), instance_op=b.op(5)
)


def start(operation: Operation, home: HomeContext = BEFORE, seen: Seen = b.NOTHING, **fields: Any) -> Status:
    wish = {name: fields.pop(name) for name in ("deleted_at", "purged_at") if name in fields}
    fields = {
        "home_ctx": home,
        "op_id": b.OP,
        "endpoint": "a:1",
        "error_reason": ErrorReason.ACTION_FAILED,
        "error_count": 2,
        "retry_at": b.NOW,
        "archive_key": OLD_KEY,
        **fields,
    }
    return started(b.workspace(now=b.status(**fields), **wish), operation, seen, b.later(5), b.NEXT_OP)


@pytest.mark.parametrize("operation", BUSY)
def test_every_operation_starts_under_a_new_op_id_with_a_clean_slate(operation: Operation) -> None:
    found = start(operation)
    assert (found.operation, found.op_id, found.op_started_at) == (operation, b.NEXT_OP, b.later(5))
    assert (found.error_reason, found.retry_at) == (None, None)
    assert found.error_count == (2 if operation is Op.STARTING else 0)  # crash loops are counted across starts
    assert found.archive_key == OLD_KEY


@pytest.mark.parametrize(("operation", "volume"), [(Op.PROVISIONING, V.NONE), (Op.RESTORING, V.RESTORING)])
def test_what_makes_a_volume_draws_a_new_incarnation_and_retires_the_old(
    operation: Operation, volume: VolumeState
) -> None:
    home = start(operation).home_ctx
    assert (home.volume, home.incarnation, home.uid) == (volume, Incarnation(str(b.NEXT_OP)), None)
    assert home.retired == (OLD, b.MADE)


def test_a_restore_forgets_the_marker_of_an_earlier_one() -> None:
    assert start(Op.RESTORING, archive_key=OLD_KEY).home_ctx.restore_marker is None


@pytest.mark.parametrize("operation", BUSY)
def test_only_the_instance_of_a_start_is_asked_for(operation: Operation) -> None:
    expected = {Op.STARTING: b.NEXT_OP, Op.STOPPING: b.op(5)}.get(operation)
    assert start(operation).home_ctx.instance_op == expected


@pytest.mark.parametrize("operation", [Op.STOPPING, Op.DELETING])
def test_nobody_is_sent_to_an_instance_that_is_going(operation: Operation) -> None:
    assert start(operation).endpoint is None


@pytest.mark.parametrize("operation", [Op.STARTING, Op.STOPPING, Op.ARCHIVING, Op.CREATE_EMPTY_ARCHIVE])
def test_a_live_home_stays_live_while_it_is_started_stopped_or_archived(operation: Operation) -> None:
    home = start(operation, phase=Phase.STANDBY).home_ctx
    assert (home.volume, home.incarnation, home.uid, home.retired) == (V.LIVE, b.MADE, "u1", (OLD,))


def test_of_a_leftover_only_the_last_step_is_left() -> None:
    home = start(Op.ARCHIVING, replace(BEFORE, volume=V.NONE), phase=Phase.ARCHIVED).home_ctx
    assert (home.volume, home.incarnation) == (V.CONDEMNED, b.MADE)


@pytest.mark.parametrize("before", VolumeState)
def test_deleting_condemns_the_volume_before_it_is_touched(before: VolumeState) -> None:
    home = start(Op.DELETING, replace(BEFORE, volume=before), deleted_at=b.NOW).home_ctx
    assert (home.volume, home.incarnation) == (V.CONDEMNED, b.MADE)


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({"error_reason": None}, False),
        ({"error_reason": ErrorReason.VOLUME_UNKNOWN}, True),
        ({"error_reason": None, "purged_at": b.NOW}, True),
    ],
    ids=["plain", "from ERROR", "purged"],
)
def test_a_volume_that_nobody_made_is_condemned_only_where_that_was_decided(
    fields: dict[str, Any], taken: bool
) -> None:
    found = start(Op.DELETING, seen=seeing(STRANGER), deleted_at=b.NOW, **fields).home_ctx
    assert found.incarnation == (STRANGER.incarnation if taken else b.MADE)


@given(st.lists(st.uuids(), max_size=40))
@settings(max_examples=50)
def test_the_latest_incarnations_stay_known(ids: list[Any]) -> None:
    home = HomeContext()
    drawn = [Incarnation(str(op_id)) for op_id in ids]
    for op_id in ids:
        home = home.draw(op_id, V.RESTORING)
    assert len(home.retired) <= MAX_RETIRED
    assert all(home.knows(incarnation) for incarnation in drawn[-MAX_RETIRED:])
