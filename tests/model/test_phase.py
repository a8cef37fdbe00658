"""Phase: section 2's table, written out over every condition, and the pairs of phase and operation that may be."""

from itertools import product

import pytest

from codehub.model.conditions import Condition, Conditions, from_json
from codehub.model.phase import LEVEL, VALID_PAIRS, calculate_phase
from codehub.model.workspace import ArchiveKey, Operation, Phase
from tests.model.builders import NOW, OP, WORKSPACE

KEY = ArchiveKey(f"{WORKSPACE}/{OP}/home.tar.zst")

# (volume_ready, container_ready, archive_ready) of a healthy workspace that is not deleted.
# None: neither volume nor archive was observed, so what was last said of the archive decides.
NOT_DELETED = {
    (True, True, True): Phase.RUNNING,
    (True, True, False): Phase.RUNNING,
    (True, False, True): Phase.STANDBY,
    (True, False, False): Phase.STANDBY,
    (False, True, True): Phase.ARCHIVED,
    (False, False, True): Phase.ARCHIVED,
    (False, True, False): None,
    (False, False, False): None,
}

# The reason of a false archive_ready: the phase when archive_key is set. Without a key it is PENDING.
WITH_A_KEY = {
    "NotObserved": Phase.ARCHIVED,
    "ArchiveUnreachable": Phase.ARCHIVED,
    "ArchiveTimeout": Phase.ARCHIVED,
    "ArchiveUploaded": Phase.ARCHIVED,
    "NoArchive": Phase.ARCHIVED,
    "ArchiveCorrupted": Phase.PENDING,
    "ArchiveExpired": Phase.PENDING,
    "ArchiveNotFound": Phase.PENDING,
}

# The reason of a false condition: whether the thing is, or may still be, there once the workspace is deleted.
VOLUME_LEFT = {
    "NotObserved": False,
    "VolumeProvisioned": False,
    "VolumeNotFound": False,
    "RestoreIncomplete": True,
    "VolumeCondemned": True,
    "VolumeUnknown": True,
}
CONTAINER_LEFT = {
    "NotObserved": False,
    "ContainerRunning": False,
    "ContainerNotRunning": True,
    "ContainerNotFound": False,
}
ARCHIVE_LEFT = {
    "NotObserved": False,
    "ArchiveUploaded": False,
    "NoArchive": False,
    "ArchiveCorrupted": False,
    "ArchiveExpired": False,
    "ArchiveNotFound": False,
    "ArchiveUnreachable": True,
    "ArchiveTimeout": True,
}
HEALTH = ["AllConditionsMet", "ContainerWithoutVolume", "ArchiveAccessError", "DataLost"]
BOTH = (True, False)


def phase_in_the_table(seen: Conditions, *, deleted: bool, key: bool) -> Phase:
    volume, container, archive = seen.volume_ready, seen.container_ready, seen.archive_ready
    if deleted:
        left = {
            volume.status or VOLUME_LEFT[volume.reason],
            container.status or CONTAINER_LEFT[container.reason],
            archive.status or ARCHIVE_LEFT[archive.reason],
        }
        return Phase.DELETING if True in left else Phase.DELETED
    if not seen.healthy.status:
        return Phase.ERROR
    decided = NOT_DELETED[volume.status, container.status, archive.status]
    if decided is not None:
        return decided
    return WITH_A_KEY[archive.reason] if key else Phase.PENDING


def every(reasons: list[str]) -> list[Condition]:
    return [Condition(status, reason) for status, reason in product(BOTH, reasons)]


def test_every_combination_of_conditions_has_the_phase_of_the_table() -> None:
    cases = list(
        product(
            every(list(VOLUME_LEFT)), every(list(ARCHIVE_LEFT)), every(list(CONTAINER_LEFT)), every(HEALTH), BOTH, BOTH
        )
    )
    assert len(cases) == 12 * 16 * 8 * 8 * 4
    for volume, archive, container, healthy, deleted, key in cases:
        seen = Conditions(volume, archive, container, healthy)
        expected = phase_in_the_table(seen, deleted=deleted, key=key)
        found = calculate_phase(seen, NOW if deleted else None, KEY if key else None)
        assert found is expected, f"{found}, not {expected}: {seen}, deleted: {deleted}, archive_key: {key}"


@pytest.mark.parametrize(
    ("deleted", "key", "phase"),
    [
        (False, False, Phase.PENDING),
        (False, True, Phase.ARCHIVED),
        (True, False, Phase.DELETED),
        (True, True, Phase.DELETED),
    ],
)
def test_conditions_that_are_missing_are_false_and_health_is_true(deleted: bool, key: bool, phase: Phase) -> None:
    for unobserved in (from_json({}), Conditions()):
        assert calculate_phase(unobserved, NOW if deleted else None, KEY if key else None) is phase


def test_an_archive_that_the_store_refused_to_show_is_still_believed_in() -> None:
    refused = from_json({"storage.archive_ready": {"status": False, "reason": "ArchiveRefused"}})
    assert calculate_phase(refused, None, KEY) is Phase.ARCHIVED


def test_neither_messages_nor_times_nor_unknown_conditions_change_the_phase() -> None:
    plain = from_json({"storage.volume_ready": {"status": True, "reason": "VolumeProvisioned"}})
    adorned = from_json(
        {
            "storage.volume_ready": {
                "status": True,
                "reason": "VolumeProvisioned",
                "message": "whole",
                "last_transition_time": NOW.isoformat(),
            },
            "infra.gpu_ready": {"status": True},
        }
    )
    assert calculate_phase(plain, None, None) is calculate_phase(adorned, None, None) is Phase.STANDBY


def test_the_levels_are_those_of_the_fifth_contract() -> None:
    assert LEVEL == {Phase.PENDING: 0, Phase.ARCHIVED: 5, Phase.STANDBY: 10, Phase.RUNNING: 20}


def test_the_valid_pairs_are_those_of_the_seeds_and_those_that_the_specification_adds() -> None:
    seeds = {
        "PENDING NONE",
        "PENDING PROVISIONING",
        "PENDING CREATE_EMPTY_ARCHIVE",
        "ARCHIVED NONE",
        "ARCHIVED RESTORING",
        "STANDBY NONE",
        "STANDBY STARTING",
        "STANDBY ARCHIVING",
        "RUNNING NONE",
        "RUNNING STOPPING",
        "ERROR NONE",
        "DELETING DELETING",
        "DELETING NONE",
    }
    added = {
        "DELETED NONE",  # section 6: where every deletion ends
        "ARCHIVED ARCHIVING",  # section 3: the condemned volume is going
        "STANDBY STOPPING",  # section 3: an instance that died by itself
        "ARCHIVED STOPPING",  # section 5: any phase with an instance that exists
        "PENDING STOPPING",
    }
    assert {f"{phase} {operation}" for phase, operation in VALID_PAIRS} == seeds | added


def test_error_goes_with_no_operation() -> None:
    assert [operation for phase, operation in VALID_PAIRS if phase is Phase.ERROR] == [Operation.NONE]
