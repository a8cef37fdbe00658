"""Wishes: what may be asked for in which state, what it changes, and which kind of no one gets."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from codehub.model import conditions as c
from codehub.model.conditions import Condition, Conditions
from codehub.model.phase import LEVEL
from codehub.model.wishes import (
    Refusal,
    RefusedBecause,
    archive_to_copy,
    delete,
    edit,
    is_ready_to_delete,
    keep_awake,
    recover,
    request_state,
    takes_a_place,
    undelete,
    undelete_until,
)
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    HomeContext,
    Operation,
    Phase,
    RecoverFrom,
    RecoverRequest,
    VolumeState,
    Wish,
    Workspace,
)
from tests.model import builders as b

RETENTION = timedelta(days=7)
KEY = ArchiveKey("key")
LOST = Condition(status=False, reason="ArchiveNotFound")
CONFLICT, GONE = RefusedBecause.CONFLICT, RefusedBecause.GONE
BUSY = [operation for operation in Operation if operation is not Operation.NONE]
REACHABLE = [Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED]


def kind(answer: Wish | Refusal) -> RefusedBecause | None:
    if isinstance(answer, Refusal):
        assert answer.message.endswith(".")
        return answer.because
    return None


def granted(answer: Wish | Refusal) -> Wish:
    assert isinstance(answer, Wish), answer
    return answer


# -- asking for a state ---------------------------------------------------------------------------------------------


def test_any_level_may_be_asked_for_while_nothing_is_in_progress() -> None:
    for phase, before, desired in product(LEVEL, REACHABLE, REACHABLE):
        answer = granted(request_state(b.in_phase(phase, desired_state=before), desired, b.later(5)))
        assert (answer.desired_state, answer.deleted_at) == (desired, None), (phase, before, desired)


def test_nothing_may_be_asked_for_during_an_operation_but_archiving() -> None:
    for phase, operation, desired in product(LEVEL, [o for o in BUSY if o is not Operation.ARCHIVING], REACHABLE):
        refused = kind(request_state(b.in_phase(phase, operation), desired, b.NOW))
        assert refused is CONFLICT, (phase, operation, desired)


@pytest.mark.parametrize("desired", REACHABLE)
def test_error_needs_recovery_first(desired: Desired) -> None:
    assert kind(request_state(b.in_phase(Phase.ERROR), desired, b.NOW)) is CONFLICT


@pytest.mark.parametrize("phase", Phase)
def test_deleted_is_asked_for_only_by_delete(phase: Phase) -> None:
    assert kind(request_state(b.in_phase(phase), Desired.DELETED, b.NOW)) is CONFLICT


def test_while_it_is_to_be_deleted_only_undelete_changes_that() -> None:
    for phase, desired, deleted_at in product(Phase, REACHABLE, (None, b.NOW)):
        row = b.in_phase(phase, desired_state=Desired.DELETED, deleted_at=deleted_at)
        assert kind(request_state(row, desired, b.NOW)) is CONFLICT, (phase, desired, deleted_at)


def test_starting_counts_as_access_and_stopping_does_not() -> None:
    row = b.in_phase(Phase.STANDBY, last_access_at=b.NOW)
    assert granted(request_state(row, Desired.RUNNING, b.later(5))).last_access_at == b.later(5)
    assert granted(request_state(row, Desired.STANDBY, b.later(5))).last_access_at == b.NOW
    assert granted(request_state(row, Desired.ARCHIVED, b.later(5))).last_access_at == b.NOW


def test_starting_never_moves_the_last_access_back() -> None:
    row = b.in_phase(Phase.STANDBY, last_access_at=b.later(9))
    assert granted(request_state(row, Desired.RUNNING, b.later(5))).last_access_at == b.later(9)


# -- editing, keeping awake -----------------------------------------------------------------------------------------


def test_names_and_notes_may_be_changed_at_any_time_but_in_the_trash() -> None:
    for phase, operation, desired in product(LEVEL, Operation, REACHABLE):
        assert edit(b.in_phase(phase, operation, desired_state=desired)) is None
    assert edit(b.in_phase(Phase.ERROR)) is None
    assert edit(b.in_phase(Phase.STANDBY, desired_state=Desired.DELETED)) is not None
    assert edit(b.in_phase(Phase.DELETING, desired_state=Desired.DELETED, deleted_at=b.NOW)) is not None


@pytest.mark.parametrize(("hours", "kept"), [(1, 1), (24, 24), (25, 24)])
def test_a_workspace_is_kept_awake_for_at_most_a_day(hours: int, kept: int) -> None:
    answer = granted(keep_awake(b.in_phase(Phase.RUNNING), b.NOW, timedelta(hours=hours)))
    assert answer.keep_awake_until == b.NOW + timedelta(hours=kept)


def test_no_time_at_all_ends_the_lease() -> None:
    row = b.in_phase(Phase.RUNNING, keep_awake_until=b.later(60))
    assert granted(keep_awake(row, b.NOW, timedelta(0))).keep_awake_until is None


def test_what_is_to_be_deleted_is_not_kept_awake() -> None:
    row = b.in_phase(Phase.RUNNING, desired_state=Desired.DELETED)
    assert kind(keep_awake(row, b.NOW, timedelta(hours=1))) is CONFLICT


# -- recovering -----------------------------------------------------------------------------------------------------

ANSWER = RecoverRequest(UUID(int=5))


def in_error(**wish: Any) -> Workspace:
    return b.workspace(now=b.status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT), **wish)


def test_a_recovery_names_the_error_it_answers() -> None:
    answer = granted(recover(in_error(), ANSWER))
    assert answer.recover_request == RecoverRequest(ANSWER.id, answers="Timeout")


def test_a_recovery_is_possible_on_the_way_to_deletion_and_not_after() -> None:
    assert kind(recover(in_error(desired_state=Desired.DELETED), ANSWER)) is None
    assert kind(recover(in_error(desired_state=Desired.DELETED), ANSWER, Desired.STANDBY)) is CONFLICT
    assert kind(recover(in_error(desired_state=Desired.DELETED, deleted_at=b.NOW), ANSWER)) is CONFLICT


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ERROR])
def test_without_an_error_there_is_nothing_to_recover_from(phase: Phase) -> None:
    assert kind(recover(b.in_phase(phase), ANSWER)) is CONFLICT


def test_a_source_that_is_not_there_is_refused() -> None:
    answer = recover(in_error(), RecoverRequest(ANSWER.id, RecoverFrom.ARCHIVE))
    assert kind(answer) is CONFLICT


def test_an_operation_ends_before_a_recovery() -> None:
    row = b.workspace(now=b.status(phase=Phase.ERROR, operation=Operation.STOPPING))
    assert kind(recover(row, ANSWER)) is CONFLICT


def test_limits_apply_to_what_makes_one_more_run() -> None:
    def starts(row: Workspace, answer: Wish | Refusal) -> bool:
        return takes_a_place(row, granted(answer))

    for before, desired in product(REACHABLE, REACHABLE):
        row = b.in_phase(Phase.STANDBY, desired_state=before)
        expected = desired is Desired.RUNNING and before is not Desired.RUNNING
        assert starts(row, request_state(row, desired, b.NOW)) is expected, (before, desired)
    assert starts(in_error(), recover(in_error(), ANSWER))
    stopped = in_error(desired_state=Desired.STANDBY)
    assert not starts(stopped, recover(stopped, ANSWER))
    running = b.in_phase(Phase.RUNNING)
    assert not starts(running, keep_awake(running, b.NOW, timedelta(hours=1)))
    assert not starts(running, delete(running, b.NOW, purge=True))


# -- copying --------------------------------------------------------------------------------------------------------


def test_an_archive_can_be_copied_from_a_living_workspace_and_from_the_trash() -> None:
    living = b.workspace(now=b.status(phase=Phase.RUNNING, archive_key=KEY))
    assert archive_to_copy(living, b.NOW, RETENTION) == KEY
    assert archive_to_copy(in_trash(), b.later(60), RETENTION) == KEY
    assert archive_to_copy(in_trash(volume="VolumeCondemned"), b.later(60), RETENTION) == KEY


@pytest.mark.parametrize(
    ("row", "seconds", "because"),
    [
        (b.in_phase(Phase.PENDING), 0, CONFLICT),
        (b.workspace(now=b.status(archive_key=KEY, conditions=Conditions(archive_ready=LOST))), 0, CONFLICT),
    ],
    ids=["none yet", "lost"],
)
def test_what_has_no_archive_is_not_copied(row: Workspace, seconds: int, because: RefusedBecause) -> None:
    answer = archive_to_copy(row, b.later(seconds), RETENTION)
    assert isinstance(answer, Refusal)
    assert answer.because is because


@pytest.mark.parametrize(("wish", "seconds"), [({"purged_at": b.NOW}, 0), ({}, 604_801), ({"archive_key": None}, 0)])
def test_what_was_not_kept_is_not_copied(wish: dict[str, Any], seconds: int) -> None:
    answer = archive_to_copy(in_trash(**wish), b.later(seconds), RETENTION)
    assert isinstance(answer, Refusal)
    assert answer.because is GONE


@pytest.mark.parametrize(
    ("row", "until"),
    [
        ({}, b.NOW + RETENTION),
        ({"purged_at": b.NOW}, None),
        ({"archive_key": None}, None),
        ({"archive": "ArchiveNotFound"}, None),
        ({"deleted_at": None}, None),
    ],
    ids=["in the trash", "purged", "no archive", "lost", "not deleted yet"],
)
def test_until_when_a_deletion_can_be_taken_back(row: dict[str, Any], until: datetime | None) -> None:
    assert undelete_until(in_trash(**row), RETENTION) == until


# -- deleting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "at_once"),
    [
        (Phase.PENDING, True),
        (Phase.ARCHIVED, True),
        (Phase.ERROR, True),
        (Phase.STANDBY, False),
        (Phase.RUNNING, False),
    ],
)
@pytest.mark.parametrize("before", Desired)
def test_a_home_on_a_volume_is_archived_before_it_is_deleted(phase: Phase, at_once: bool, before: Desired) -> None:
    answer = granted(delete(b.in_phase(phase, desired_state=before), b.later(5)))
    assert answer.desired_state is Desired.DELETED
    assert answer.deleted_at == (b.later(5) if at_once else None)
    assert answer.purged_at is None


@pytest.mark.parametrize("phase", [p for p in Phase if p not in (Phase.DELETING, Phase.DELETED)])
def test_a_purge_deletes_at_once_and_keeps_nothing(phase: Phase) -> None:
    answer = granted(delete(b.in_phase(phase), b.later(5), purge=True))
    assert (answer.desired_state, answer.deleted_at, answer.purged_at) == (Desired.DELETED, b.later(5), b.later(5))


@pytest.mark.parametrize("operation", BUSY)
@pytest.mark.parametrize("purge", [False, True])
def test_nothing_is_deleted_during_an_operation(operation: Operation, purge: bool) -> None:
    assert kind(delete(b.in_phase(Phase.STANDBY, operation), b.NOW, purge=purge)) is CONFLICT


def test_deleting_twice_keeps_the_first_time() -> None:
    row = b.in_phase(Phase.DELETING, desired_state=Desired.DELETED, deleted_at=b.NOW)
    assert granted(delete(row, b.later(60))) == row.wish


def test_a_deleted_workspace_can_still_be_purged() -> None:
    row = b.in_phase(Phase.DELETING, desired_state=Desired.DELETED, deleted_at=b.NOW)
    answer = granted(delete(row, b.later(60), purge=True))
    assert (answer.deleted_at, answer.purged_at) == (b.NOW, b.later(60))


def test_an_error_on_the_way_down_waits_for_a_second_delete() -> None:
    row = b.in_phase(Phase.ERROR, desired_state=Desired.DELETED)
    assert not is_ready_to_delete(row)
    assert granted(delete(row, b.later(60))).deleted_at == b.later(60)


def test_the_coordinator_sets_deleted_at_once_it_has_stepped_down() -> None:
    reasons = (c.VOLUME_NOT_FOUND, c.VOLUME_CONDEMNED, c.NOT_OBSERVED)
    for phase, desired, operation, deleted_at, volume in product(Phase, Desired, Operation, (None, b.NOW), reasons):
        row = b.in_phase(phase, operation, desired_state=desired, deleted_at=deleted_at)
        row = b.with_status(row, conditions=Conditions(volume_ready=b.condition(False, volume)))
        arrived = (desired, operation, deleted_at) == (Desired.DELETED, Operation.NONE, None)
        # PENDING: a recovery from a blank home left nothing to keep.
        # ARCHIVED: an old volume goes first, once its archive is verified.
        gone = volume == c.VOLUME_NOT_FOUND
        expected = arrived and (phase is Phase.PENDING or (phase is Phase.ARCHIVED and gone))
        assert is_ready_to_delete(row) is expected, (phase, desired, operation, deleted_at)


# -- undeleting -----------------------------------------------------------------------------------------------------


def in_trash(
    *,
    volume: str = "VolumeNotFound",
    container: str = "ContainerNotFound",
    archive: str = "ArchiveUploaded",
    home: VolumeState = VolumeState.NONE,
    archive_key: ArchiveKey | None = KEY,
    operation: Operation = Operation.NONE,
    **wish: Any,
) -> Workspace:
    seen = Conditions(
        Condition(volume == "VolumeProvisioned", volume),
        Condition(archive == "ArchiveUploaded", archive),
        Condition(container == "ContainerRunning", container),
    )
    now = b.status(
        phase=Phase.DELETING,
        conditions=seen,
        archive_key=archive_key,
        home_ctx=HomeContext(volume=home),
        operation=operation,
    )
    wish = {"desired_state": Desired.DELETED, "deleted_at": b.NOW, **wish}
    return b.workspace(now=now, **wish)


def test_a_deleted_workspace_comes_back_archived() -> None:
    answer = granted(undelete(in_trash(), b.later(60), RETENTION))
    assert (answer.desired_state, answer.deleted_at) == (Desired.ARCHIVED, None)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.PENDING, Phase.ERROR])
def test_before_deleted_at_is_set_the_wish_is_simply_taken_back(phase: Phase) -> None:
    answer = granted(undelete(b.in_phase(phase, desired_state=Desired.DELETED), b.NOW, RETENTION))
    assert (answer.desired_state, answer.deleted_at) == (Desired.ARCHIVED, None)


@pytest.mark.parametrize(
    "row",
    [
        in_trash(purged_at=b.NOW),
        in_trash(purged_at=b.NOW, volume="VolumeCondemned"),
        in_trash(archive_key=None),
        in_trash(archive="ArchiveNotFound"),
        in_trash(archive="ArchiveCorrupted"),
        in_trash(archive="ArchiveExpired"),
    ],
    ids=["purged", "purged and going", "no archive", "not found", "corrupted", "expired"],
)
def test_what_was_not_kept_is_gone(row: Workspace) -> None:
    assert kind(undelete(row, b.later(60), RETENTION)) is GONE


@pytest.mark.parametrize(("seconds", "refused"), [(0, None), (604_800, None), (604_801, GONE), (10**8, GONE)])
def test_the_retention_is_over_after_seven_days(seconds: int, refused: RefusedBecause | None) -> None:
    assert kind(undelete(in_trash(), b.later(seconds), RETENTION)) is refused


@pytest.mark.parametrize(
    "row",
    [
        in_trash(volume="VolumeProvisioned"),
        in_trash(volume="VolumeCondemned"),
        in_trash(volume="RestoreIncomplete"),
        in_trash(volume="NotObserved"),
        in_trash(container="ContainerRunning"),
        in_trash(container="ContainerNotRunning"),
        in_trash(container="NotObserved"),
        in_trash(home=VolumeState.CONDEMNED),
        in_trash(home=VolumeState.LIVE),
        *[in_trash(operation=operation) for operation in BUSY],
        in_trash(operation=Operation.DELETING, purged_at=b.NOW),
    ],
)
def test_until_all_is_observed_gone_it_must_wait(row: Workspace) -> None:
    assert kind(undelete(row, b.later(60), RETENTION)) is CONFLICT


@pytest.mark.parametrize("volume", ["VolumeUnknown", "VolumeUnproven"])
def test_a_volume_that_nothing_removes_does_not_bar_the_way_back(volume: str) -> None:
    """Its owner decides about it, as of a workspace that was undeleted since the database's backup."""
    assert kind(undelete(in_trash(volume=volume, home=VolumeState.CONDEMNED), b.later(60), RETENTION)) is None
    assert kind(undelete(in_trash(volume=volume, container="ContainerRunning"), b.later(60), RETENTION)) is CONFLICT


@pytest.mark.parametrize("archive", ["ArchiveUnreachable", "ArchiveTimeout", "NotObserved"])
def test_an_archive_that_nobody_could_look_at_is_believed_to_be_there(archive: str) -> None:
    assert kind(undelete(in_trash(archive=archive), b.later(60), RETENTION)) is None


@pytest.mark.parametrize("desired", REACHABLE)
def test_what_was_not_deleted_cannot_be_undeleted(desired: Desired) -> None:
    assert kind(undelete(b.in_phase(Phase.STANDBY, desired_state=desired), b.NOW, RETENTION)) is CONFLICT


def test_the_two_kinds_of_no_are_the_two_status_codes() -> None:
    assert (CONFLICT.value, GONE.value) == (409, 410)


def test_a_recovery_can_say_what_is_wanted_afterwards() -> None:
    for desired in (Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED):
        answer = granted(recover(in_error(desired_state=Desired.ARCHIVED), ANSWER, desired, b.later(60)))
        assert (answer.desired_state, answer.recover_request is not None) == (desired, True)
        assert (answer.last_access_at == b.later(60)) == (desired is Desired.RUNNING)


# -- safe mode --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.ARCHIVED, Phase.STANDBY])
def test_safe_mode_lasts_until_the_next_start_that_does_not_ask_for_it(phase: Phase) -> None:
    row = b.in_phase(phase, desired_state=Desired.STANDBY)
    asked = granted(request_state(row, Desired.RUNNING, b.NOW, safe_mode=True))
    assert asked.safe_mode
    starting = b.in_phase(phase, desired_state=Desired.RUNNING, safe_mode=True)
    assert granted(request_state(starting, Desired.RUNNING, b.NOW)).safe_mode, (
        "a visit that waits for it changes nothing"
    )
    stopped = b.in_phase(phase, desired_state=Desired.STANDBY, safe_mode=True)
    assert not granted(request_state(stopped, Desired.RUNNING, b.NOW)).safe_mode


def test_the_mode_of_what_runs_does_not_change() -> None:
    for desired, is_safe in product([Desired.RUNNING, Desired.STANDBY], [True, False]):
        row = b.in_phase(Phase.RUNNING, desired_state=desired, safe_mode=is_safe)
        assert granted(request_state(row, Desired.RUNNING, b.NOW)).safe_mode == is_safe
        assert granted(request_state(row, Desired.RUNNING, b.NOW, safe_mode=is_safe)).safe_mode == is_safe
        assert kind(request_state(row, Desired.RUNNING, b.NOW, safe_mode=not is_safe)) is CONFLICT


def test_what_is_in_error_starts_in_safe_mode_by_a_recovery() -> None:
    answer = granted(recover(in_error(), ANSWER, Desired.RUNNING, b.NOW, safe_mode=True))
    assert (answer.safe_mode, answer.recover_request is not None) == (True, True)
    assert granted(recover(in_error(safe_mode=True), ANSWER)).safe_mode
    assert not granted(recover(in_error(safe_mode=True), ANSWER, Desired.RUNNING, b.NOW, safe_mode=False)).safe_mode
