"""Suspicion: what is missing from a listing is looked at once more, and many missing at once are an outage."""

from dataclasses import replace

import pytest

from codehub.model.observation import ArchiveSeen, JobSeen, JobState, Seen, VolumeSeen
from codehub.model.suspicion import is_relied_on, is_volume_lost, is_volume_suspect, looks_like_outage
from codehub.model.workspace import HomeContext, Incarnation, Operation, VolumeState, Workspace
from tests.model import builders as b

UNLISTED = VolumeSeen(False)
ANOTHER = VolumeSeen(True, Incarnation("another"))
ARCHIVING = b.status(operation=Operation.ARCHIVING, op_id=b.OP, home_ctx=b.LIVE_HOME)


def relying(volume: VolumeState = VolumeState.LIVE, *, uid: str | None = None) -> Workspace:
    return b.workspace(now=b.status(home_ctx=HomeContext(volume=volume, incarnation=b.MADE, uid=uid)))


@pytest.mark.parametrize("state", VolumeState)
@pytest.mark.parametrize("volume", [None, b.LIVE_VOLUME, b.NO_VOLUME, UNLISTED], ids=["unseen", "there", "gone", "?"])
def test_only_a_whole_home_that_a_listing_lacks_is_suspect(state: VolumeState, volume: VolumeSeen | None) -> None:
    assert is_volume_suspect(relying(state), volume) is (state is VolumeState.LIVE and volume is UNLISTED)


def test_nobody_relies_on_the_home_of_a_deleted_workspace() -> None:
    deleted = b.workspace(now=b.status(home_ctx=b.LIVE_HOME), deleted_at=b.NOW)
    assert not is_volume_suspect(deleted, UNLISTED)


@pytest.mark.parametrize(
    ("suspects", "relied_on", "outage"),
    [
        (0, 0, False),
        (1, 1, False),
        (3, 3, False),  # one node died
        (4, 4, True),
        (4, 19, True),
        (4, 20, False),  # exactly a fifth
        (5, 20, True),
        (20, 100, False),
        (21, 100, True),
    ],
)
def test_more_than_three_and_more_than_a_fifth_are_an_outage(suspects: int, relied_on: int, outage: bool) -> None:
    assert looks_like_outage(suspects, relied_on) is outage


@pytest.mark.parametrize(
    ("home_uid", "volume", "relied_on"),
    [
        (None, b.LIVE_VOLUME, True),
        (None, VolumeSeen(True, b.MADE, "u1"), True),  # made before uids existed
        ("u1", VolumeSeen(True, b.MADE, "u1"), True),
        ("u1", VolumeSeen(True, b.MADE, "u2"), False),  # a blank one that a late creation put there
        ("u1", ANOTHER, False),
        (None, b.NO_VOLUME, False),
    ],
)
def test_only_the_very_volume_that_became_live_is_relied_on(
    home_uid: str | None, volume: VolumeSeen, relied_on: bool
) -> None:
    assert is_relied_on(relying(uid=home_uid).status.home_ctx, volume) is relied_on


@pytest.mark.parametrize(
    ("volume", "lost"),
    [(None, None), (UNLISTED, None), (b.NO_VOLUME, True), (ANOTHER, True), (b.LIVE_VOLUME, False)],
    ids=["could not look", "missing from a listing", "looked at directly", "another one is there", "there"],
)
def test_a_live_home_is_lost_only_for_certain(volume: VolumeSeen | None, lost: bool | None) -> None:
    assert is_volume_lost(relying(), Seen(volume=volume, jobs=())) is lost


@pytest.mark.parametrize("state", [VolumeState.NONE, VolumeState.RESTORING, VolumeState.CONDEMNED])
def test_what_was_no_whole_home_cannot_be_lost(state: VolumeState) -> None:
    assert is_volume_lost(relying(state), b.NOTHING) is False


@pytest.mark.parametrize("operation", [o for o in Operation if o is not Operation.ARCHIVING])
def test_no_other_operation_explains_that_a_live_home_vanished(operation: Operation) -> None:
    row = b.workspace(now=b.status(operation=operation, op_id=b.OP, home_ctx=b.LIVE_HOME))
    assert is_volume_lost(row, replace(b.NOTHING, op_archive=ArchiveSeen.VERIFIED)) is True


@pytest.mark.parametrize(
    ("op_archive", "lost"),
    [
        (ArchiveSeen.VERIFIED, None),
        (ArchiveSeen.MISSING, True),
        (ArchiveSeen.CORRUPTED, True),
        (ArchiveSeen.EXPIRED, True),
        (ArchiveSeen.LISTED, None),
        (ArchiveSeen.UNREACHABLE, None),
        (ArchiveSeen.TIMEOUT, None),
        (None, None),
    ],
)
def test_a_home_that_vanished_while_archiving_is_lost_unless_its_archive_is_complete(
    op_archive: ArchiveSeen | None, lost: bool | None
) -> None:
    seen = replace(b.NOTHING, op_archive=op_archive, archive=ArchiveSeen.VERIFIED)
    assert is_volume_lost(b.workspace(now=ARCHIVING), seen) is lost


@pytest.mark.parametrize("jobs", [None, (JobSeen(b.OP, JobState.RUNNING),)], ids=["could not look", "still running"])
def test_while_its_archive_job_may_run_nothing_is_concluded(jobs: tuple[JobSeen, ...] | None) -> None:
    seen = replace(b.NOTHING, jobs=jobs, op_archive=ArchiveSeen.MISSING)
    assert is_volume_lost(b.workspace(now=ARCHIVING), seen) is None
