"""What people are told that a deleted workspace still waits for."""

from datetime import timedelta
from typing import Any

import pytest

from codehub.model.removal import Removal, RemovalReason, removal_of
from codehub.model.workspace import Operation, Phase
from tests.model import builders as b
from tests.model.test_wishes import in_trash

RETENTION = timedelta(days=7)
PURGED: dict[str, Any] = {"purged_at": b.NOW}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"deleted_at": None}, None),
        ({}, Removal(RemovalReason.TRASH, b.NOW + RETENTION)),
        ({"operation": Operation.DELETING, **PURGED}, Removal(RemovalReason.BACKEND, None)),
        ({"volume": "VolumeCondemned", **PURGED}, Removal(RemovalReason.BACKEND, None)),
        ({"container": "ContainerNotRunning", **PURGED}, Removal(RemovalReason.BACKEND, None)),
        ({"archive": "ArchiveUnreachable", **PURGED}, Removal(RemovalReason.STORE, None)),
        (PURGED, Removal(RemovalReason.ARCHIVE, b.later(60))),
        ({"archive": "ArchiveCorrupted"}, Removal(RemovalReason.ARCHIVE, None)),
    ],
)
def test_what_it_waits_for(row: dict[str, Any], expected: Removal | None) -> None:
    assert removal_of(in_trash(**row), RETENTION, is_remembered=True) == expected


def test_an_archive_that_the_database_did_not_make_waits_for_an_administrator() -> None:
    purged = in_trash(**PURGED)
    assert removal_of(purged, RETENTION, is_remembered=False) == Removal(RemovalReason.UNREMEMBERED, None)
    gone = b.with_status(purged, phase=Phase.DELETED)
    assert removal_of(gone, RETENTION, is_remembered=False) is None
