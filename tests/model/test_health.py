"""Health: the three causes in their order, what is said of each, and which states are a fault in themselves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.conditions import Condition, Conditions
from codehub.model.health import ADVICE, judge, lasting_fault
from codehub.model.observation import ArchiveSeen, Seen, VolumeSeen
from codehub.model.observe import observe
from codehub.model.workspace import ArchiveKey, ErrorReason, HomeContext, Incarnation, Operation, VolumeState, Workspace
from tests.model import builders as b

E = ErrorReason
TERMINAL_ARCHIVE = ["ArchiveCorrupted", "ArchiveExpired", "ArchiveNotFound"]
OTHER_ARCHIVE = ["NotObserved", "NoArchive", "ArchiveUploaded", "ArchiveUnreachable", "ArchiveTimeout"]
TERMINAL_ERRORS = [e for e in E if e not in (E.ACTION_FAILED, E.UNREACHABLE)]


def facts(*, volume: bool, container: bool, archive: str, healthy: Condition | None = None) -> Conditions:
    return Conditions(
        b.condition(volume),
        b.condition(archive == "ArchiveUploaded", archive),
        b.condition(container),
        healthy or Condition(True, "AllConditionsMet", "All is well.", b.NOW),
    )


@pytest.mark.parametrize(
    ("volume", "container", "archive", "error", "reason"),
    [
        # 1. a container without its volume
        (False, True, "NoArchive", None, "ContainerWithoutVolume"),
        (False, True, "ArchiveNotFound", None, "ContainerWithoutVolume"),
        (False, True, "ArchiveNotFound", E.TIMEOUT, "ContainerWithoutVolume"),
        (False, True, "ArchiveUploaded", E.DATA_LOST, "ContainerWithoutVolume"),
        # 2. an archive that is gone for good, without a live volume
        (False, False, "ArchiveNotFound", None, "ArchiveAccessError"),
        (False, False, "ArchiveCorrupted", None, "ArchiveAccessError"),
        (False, False, "ArchiveExpired", None, "ArchiveAccessError"),
        (False, False, "ArchiveExpired", E.TIMEOUT, "ArchiveAccessError"),
        # 3. a terminal error
        (False, False, "NoArchive", E.TIMEOUT, "Timeout"),
        (False, False, "ArchiveUploaded", E.RETRY_EXCEEDED, "RetryExceeded"),
        (True, False, "ArchiveNotFound", E.IMAGE_PULL_FAILED, "ImagePullFailed"),
        (True, True, "ArchiveUploaded", E.DATA_LOST, "DataLost"),
        # none of them
        (True, True, "ArchiveNotFound", None, None),
        (True, False, "ArchiveCorrupted", None, None),
        (False, False, "ArchiveUnreachable", None, None),
        (False, False, "ArchiveTimeout", None, None),
        (False, False, "NoArchive", None, None),
        (False, False, "NotObserved", None, None),
        (False, False, "ArchiveUploaded", E.ACTION_FAILED, None),
        (True, True, "NoArchive", E.UNREACHABLE, None),
    ],
)
def test_the_first_cause_that_holds_is_the_reason(
    volume: bool, container: bool, archive: str, error: ErrorReason | None, reason: str | None
) -> None:
    found = judge(facts(volume=volume, container=container, archive=archive), error, b.NOW)
    assert (found.status, found.reason) == (reason is None, reason or "AllConditionsMet")


@given(
    st.booleans(),
    st.booleans(),
    st.sampled_from(TERMINAL_ARCHIVE + OTHER_ARCHIVE),
    st.none() | st.sampled_from(E),
)
@settings(max_examples=100)
def test_unhealthy_is_exactly_one_of_the_three_causes(
    volume: bool, container: bool, archive: str, error: ErrorReason | None
) -> None:
    found = judge(facts(volume=volume, container=container, archive=archive), error, b.NOW)
    causes = [container and not volume, archive in TERMINAL_ARCHIVE and not volume, error in TERMINAL_ERRORS]
    assert found.status is not any(causes)
    assert found.message


@pytest.mark.parametrize("archive", TERMINAL_ARCHIVE)
def test_a_live_volume_makes_an_archive_problem_a_warning(archive: str) -> None:
    with_volume = facts(volume=True, container=False, archive=archive)
    assert judge(with_volume, None, b.NOW).status
    assert not judge(facts(volume=False, container=False, archive=archive), None, b.NOW).status
    assert with_volume.archive_ready.reason == archive  # it still shows


def test_what_was_said_when_the_error_arose_stays_while_it_is_the_same_error() -> None:
    first = judge(facts(volume=True, container=False, archive="NoArchive"), E.TIMEOUT, b.NOW, "STARTING hung.")
    assert first.message == f"STARTING hung. {ADVICE[E.TIMEOUT]}"
    after = facts(volume=True, container=False, archive="NoArchive", healthy=first)
    assert judge(after, E.TIMEOUT, b.later(60)) == first
    another = judge(after, E.IMAGE_PULL_FAILED, b.later(60))
    assert another.message == ADVICE[E.IMAGE_PULL_FAILED]
    assert another.last_transition_time == first.last_transition_time


def test_a_new_cause_of_the_same_error_is_said_too() -> None:
    before = Condition(False, "Timeout", "ARCHIVING hung. Old advice.", b.NOW)
    seen = facts(volume=True, container=False, archive="NoArchive", healthy=before)
    assert judge(seen, E.TIMEOUT, b.NOW, "STARTING hung.").message.startswith("STARTING hung.")


def test_while_something_is_retried_the_message_names_its_last_failure() -> None:
    before = Condition(True, "AllConditionsMet", "The engine said no.", b.NOW)
    seen = facts(volume=True, container=False, archive="NoArchive", healthy=before)
    assert judge(seen, E.ACTION_FAILED, b.NOW).message == "The engine said no."
    assert judge(seen, None, b.NOW).message == "All is well."


@pytest.mark.parametrize("error", TERMINAL_ERRORS)
def test_every_terminal_error_has_advice_with_a_next_step(error: ErrorReason) -> None:
    assert "recover" in ADVICE[error].lower()
    assert ADVICE[error].endswith(".")


def looked(row: Workspace, seen: Seen) -> Workspace:
    return b.with_status(row, conditions=observe(row, seen, b.NOW))


def fault_of(row: Workspace, seen: Seen) -> ErrorReason | None:
    fault = lasting_fault(looked(row, seen), seen)
    return fault.reason if fault else None


KEY = ArchiveKey("key")
STRANGER = VolumeSeen(True, Incarnation("stranger"))
ON = replace(b.LIVE_HOME, instance_op=b.OP)
OFF = HomeContext(instance_op=b.OP)


@pytest.mark.parametrize(
    ("home", "key", "seen", "fault"),
    [
        (ON, None, replace(b.NOTHING, volume=b.LIVE_VOLUME), None),
        (ON, None, b.NOTHING, E.DATA_LOST),
        (ON, None, replace(b.NOTHING, instance=b.running(b.OP)), E.DATA_LOST),  # before ContainerWithoutVolume
        (ON, KEY, replace(b.NOTHING, archive=ArchiveSeen.VERIFIED), E.DATA_LOST),  # never a silent roll-back
        (ON, KEY, replace(b.NOTHING, archive=ArchiveSeen.MISSING), E.DATA_LOST),
        (ON, None, replace(b.NOTHING, volume=STRANGER), E.DATA_LOST),
        (OFF, None, replace(b.NOTHING, volume=STRANGER), E.VOLUME_UNKNOWN),
        (OFF, None, replace(b.NOTHING, instance=b.running(b.OP)), E.CONTAINER_WITHOUT_VOLUME),
        (
            OFF,
            KEY,
            replace(b.NOTHING, instance=b.running(b.OP), archive=ArchiveSeen.MISSING),
            E.CONTAINER_WITHOUT_VOLUME,
        ),
        (OFF, KEY, replace(b.NOTHING, archive=ArchiveSeen.MISSING), E.ARCHIVE_ACCESS_ERROR),
        (OFF, KEY, replace(b.NOTHING, archive=ArchiveSeen.EXPIRED), E.ARCHIVE_ACCESS_ERROR),
        (OFF, KEY, replace(b.NOTHING, archive=ArchiveSeen.CORRUPTED), E.ARCHIVE_CORRUPTED),
        (OFF, KEY, replace(b.NOTHING, archive=ArchiveSeen.UNREACHABLE), None),
        (ON, KEY, replace(b.NOTHING, volume=b.LIVE_VOLUME, archive=ArchiveSeen.CORRUPTED), None),
        (OFF, None, b.NOTHING, None),
    ],
)
def test_a_cause_in_the_state_itself_is_found_at_every_look(
    home: HomeContext, key: ArchiveKey | None, seen: Seen, fault: ErrorReason | None
) -> None:
    assert fault_of(b.workspace(now=b.status(home_ctx=home, archive_key=key)), seen) is fault


@pytest.mark.parametrize("seen", [Seen(), replace(b.NOTHING, volume=VolumeSeen(False))], ids=["nothing", "a listing"])
def test_no_loss_is_concluded_from_a_listing_alone(seen: Seen) -> None:
    assert fault_of(b.workspace(now=b.status(home_ctx=ON)), seen) is None


@pytest.mark.parametrize("operation", [Operation.NONE, Operation.DELETING])
def test_a_deleted_workspace_has_no_fault(operation: Operation) -> None:
    now = b.status(home_ctx=ON, operation=operation, archive_key=KEY)
    seen = replace(b.NOTHING, instance=b.running(b.OP), archive=ArchiveSeen.CORRUPTED)
    assert fault_of(b.workspace(now=now, deleted_at=b.NOW), seen) is None


@pytest.mark.parametrize("state", [VolumeState.RESTORING, VolumeState.CONDEMNED, VolumeState.NONE])
def test_a_half_home_does_not_make_up_for_a_lost_archive(state: VolumeState) -> None:
    now = b.status(home_ctx=HomeContext(volume=state, incarnation=b.MADE), archive_key=KEY)
    seen = replace(b.NOTHING, volume=b.LIVE_VOLUME, archive=ArchiveSeen.MISSING)
    assert fault_of(b.workspace(now=now), seen) is E.ARCHIVE_ACCESS_ERROR
