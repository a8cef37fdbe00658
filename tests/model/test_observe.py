"""Observe: what each look says of the volume, the container and the archive, and what could not be looked at stays."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.conditions import Condition, Conditions
from codehub.model.observation import ArchiveSeen, InstanceSeen, JobSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.observe import is_asked_for, is_leftover, is_live, is_unknown, observe
from codehub.model.workspace import (
    UNLABELLED,
    ArchiveKey,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    OpId,
    VolumeState,
)
from tests.model import builders as b

KEY = ArchiveKey("key")
OLD = Incarnation("old")
EARLIER = b.condition(True, "Earlier", b.later(-60))
SEEN_EARLIER = Conditions(EARLIER, EARLIER, EARLIER, EARLIER, {"more": 1})
UNLISTED = VolumeSeen(False)

incarnations = st.sampled_from([b.MADE, OLD, Incarnation("stranger"), Incarnation("")])
homes = st.builds(
    HomeContext,
    volume=st.sampled_from(VolumeState),
    incarnation=st.none() | incarnations,
    uid=st.sampled_from([None, "u1", "u2"]),
    retired=st.lists(incarnations, max_size=2).map(tuple),
    instance_op=st.sampled_from([None, b.OP, b.NEXT_OP]),
)
volumes = st.builds(VolumeSeen, st.booleans(), incarnations, st.sampled_from(["", "u1", "u2"]), st.booleans())
instances = st.builds(
    InstanceSeen, st.sampled_from([None, *Life]), st.sampled_from([None, b.OP, b.NEXT_OP]), st.none() | st.just("a:1")
)
looks = st.builds(
    Seen,
    instance=st.none() | instances,
    volume=st.none() | volumes,
    archive=st.none() | st.sampled_from(ArchiveSeen),
    op_archive=st.none() | st.sampled_from(ArchiveSeen),
    jobs=st.sampled_from([None, (), (JobSeen(b.OP, JobState.RUNNING),)]),
)


def home(volume: VolumeState, *retired: Incarnation) -> HomeContext:
    return HomeContext(volume=volume, incarnation=b.MADE, retired=retired)


@pytest.mark.parametrize(
    ("of", "volume", "status", "reason"),
    [
        (home(VolumeState.LIVE), b.LIVE_VOLUME, True, "VolumeProvisioned"),
        (home(VolumeState.LIVE), b.NO_VOLUME, False, "VolumeNotFound"),
        (home(VolumeState.LIVE), VolumeSeen(True, Incarnation("x")), False, "VolumeUnproven"),
        (home(VolumeState.LIVE), VolumeSeen(True, Incarnation("x"), whole=True), False, "VolumeUnknown"),
        (home(VolumeState.LIVE), VolumeSeen(True, UNLABELLED), False, "VolumeUnknown"),
        (home(VolumeState.LIVE, OLD), VolumeSeen(True, OLD), False, "VolumeCondemned"),
        (home(VolumeState.NONE), b.NO_VOLUME, False, "VolumeNotFound"),
        (home(VolumeState.NONE), UNLISTED, False, "VolumeNotFound"),
        (home(VolumeState.NONE), b.LIVE_VOLUME, False, "VolumeCondemned"),
        (HomeContext(), b.LIVE_VOLUME, False, "VolumeUnknown"),
        (home(VolumeState.RESTORING), b.LIVE_VOLUME, False, "RestoreIncomplete"),
        (home(VolumeState.RESTORING, OLD), VolumeSeen(True, OLD), False, "VolumeCondemned"),
        (home(VolumeState.CONDEMNED), b.LIVE_VOLUME, False, "VolumeCondemned"),
    ],
)
def test_only_a_whole_home_counts_as_a_volume(of: HomeContext, volume: VolumeSeen, status: bool, reason: str) -> None:
    row = b.workspace(now=b.status(home_ctx=of))
    found = observe(row, Seen(volume=volume), b.NOW).volume_ready
    assert (found.status, found.reason) == (status, reason)


def test_a_live_home_missing_from_a_listing_stays_as_it_was() -> None:
    row = b.workspace(now=b.status(home_ctx=b.LIVE_HOME, conditions=SEEN_EARLIER))
    assert observe(row, Seen(volume=UNLISTED), b.NOW).volume_ready == EARLIER


@pytest.mark.parametrize("volume", [VolumeState.LIVE, VolumeState.CONDEMNED])
def test_nor_is_the_home_of_a_deleted_workspace_gone_because_a_listing_lacks_it(volume: VolumeState) -> None:
    """Listing by listing it would be there and gone again, and its deletion begin anew each time."""
    row = b.workspace(now=b.status(home_ctx=home(volume), conditions=SEEN_EARLIER), deleted_at=b.NOW)
    assert observe(row, Seen(volume=UNLISTED), b.NOW).volume_ready == EARLIER
    assert observe(row, Seen(volume=b.NO_VOLUME), b.NOW).volume_ready.reason == "VolumeNotFound"


@pytest.mark.parametrize(
    ("archive", "status", "reason"),
    [
        (ArchiveSeen.LISTED, True, "ArchiveUploaded"),
        (ArchiveSeen.VERIFIED, True, "ArchiveUploaded"),
        (ArchiveSeen.MISSING, False, "ArchiveNotFound"),
        (ArchiveSeen.CORRUPTED, False, "ArchiveCorrupted"),
        (ArchiveSeen.EXPIRED, False, "ArchiveExpired"),
        (ArchiveSeen.UNREACHABLE, False, "ArchiveUnreachable"),
        (ArchiveSeen.TIMEOUT, False, "ArchiveTimeout"),
    ],
)
def test_what_the_store_says_of_the_archive(archive: ArchiveSeen, status: bool, reason: str) -> None:
    row = b.workspace(now=b.status(archive_key=KEY))
    found = observe(row, Seen(archive=archive), b.NOW).archive_ready
    assert (found.status, found.reason) == (status, reason)


FOUND_DAMAGED = b.status(archive_key=KEY, error_reason=ErrorReason.ARCHIVE_CORRUPTED)


@pytest.mark.parametrize(
    ("archive", "status", "reason"),
    [
        (None, False, "ArchiveCorrupted"),
        (ArchiveSeen.LISTED, False, "ArchiveCorrupted"),
        (ArchiveSeen.UNREACHABLE, False, "ArchiveCorrupted"),
        (ArchiveSeen.MISSING, False, "ArchiveNotFound"),
        (ArchiveSeen.VERIFIED, True, "ArchiveUploaded"),
    ],
)
def test_what_a_restore_found_stands_until_something_reads_the_archive(
    archive: ArchiveSeen | None, status: bool, reason: str
) -> None:
    row = b.workspace(now=FOUND_DAMAGED)
    found = observe(row, Seen(archive=archive), b.NOW).archive_ready
    assert (found.status, found.reason) == (status, reason)


def test_after_a_recovery_what_a_restore_found_is_looked_at_anew() -> None:
    before = observe(b.workspace(now=FOUND_DAMAGED), Seen(), b.NOW)
    recovered = b.workspace(now=b.status(archive_key=KEY, conditions=before))
    assert observe(recovered, Seen(archive=ArchiveSeen.LISTED), b.NOW).archive_ready.status


@pytest.mark.parametrize("archive", [None, ArchiveSeen.VERIFIED])
def test_without_a_committed_key_there_is_no_archive(archive: ArchiveSeen | None) -> None:
    row = b.workspace(now=b.status(conditions=SEEN_EARLIER))
    found = observe(row, Seen(archive=archive, op_archive=ArchiveSeen.VERIFIED), b.NOW).archive_ready
    assert (found.status, found.reason) == (False, "NoArchive")


@pytest.mark.parametrize(
    ("life", "op_id", "operation", "status", "reason"),
    [
        (None, None, Operation.NONE, False, "ContainerNotFound"),
        (Life.DEAD, b.OP, Operation.NONE, False, "ContainerNotRunning"),
        (Life.ALIVE, b.OP, Operation.NONE, True, "ContainerRunning"),  # from then on, alive counts as ready
        (Life.READY, b.OP, Operation.NONE, True, "ContainerRunning"),
        (Life.DEAD, b.OP, Operation.STARTING, False, "ContainerNotRunning"),
        (Life.ALIVE, b.OP, Operation.STARTING, False, "ContainerNotRunning"),
        (Life.READY, b.OP, Operation.STARTING, True, "ContainerRunning"),
        (Life.ALIVE, b.OP, Operation.STOPPING, True, "ContainerRunning"),
        (Life.READY, b.NEXT_OP, Operation.NONE, False, "ContainerNotRunning"),  # nobody asked for it
        (Life.READY, b.NEXT_OP, Operation.STARTING, False, "ContainerNotRunning"),
        (Life.READY, None, Operation.NONE, False, "ContainerNotRunning"),
    ],
)
def test_what_a_look_says_of_the_container(
    life: Life | None, op_id: OpId | None, operation: Operation, status: bool, reason: str
) -> None:
    row = b.workspace(now=b.status(operation=operation, home_ctx=replace(b.LIVE_HOME, instance_op=b.OP)))
    found = observe(row, Seen(instance=InstanceSeen(life, op_id), jobs=()), b.NOW).container_ready
    assert (found.status, found.reason) == (status, reason)


@pytest.mark.parametrize("jobs", [None, (JobSeen(b.NEXT_OP, JobState.RUNNING),)], ids=["unseen", "running"])
def test_starting_is_not_ready_while_a_job_may_write(jobs: tuple[JobSeen, ...] | None) -> None:
    row = b.workspace(now=b.status(operation=Operation.STARTING, home_ctx=replace(b.LIVE_HOME, instance_op=b.OP)))
    assert not observe(row, Seen(instance=b.running(b.OP), jobs=jobs), b.NOW).container_ready.status


def test_a_job_left_behind_keeps_a_deleted_workspace_from_being_gone() -> None:
    row = b.workspace(deleted_at=b.NOW)
    seen = replace(b.NOTHING, jobs=(JobSeen(b.OP, JobState.FAILED),))
    assert observe(row, seen, b.NOW).container_ready.reason == "ContainerNotRunning"


def test_what_could_not_be_looked_at_keeps_its_last_condition() -> None:
    row = b.workspace(now=b.status(conditions=SEEN_EARLIER, archive_key=KEY, home_ctx=b.LIVE_HOME))
    assert observe(row, Seen(), b.NOW) == SEEN_EARLIER


@given(homes, looks, st.sampled_from(Operation), st.booleans(), st.booleans())
@settings(max_examples=100)
def test_the_same_look_twice_changes_nothing(
    of: HomeContext, seen: Seen, operation: Operation, key: bool, deleted: bool
) -> None:
    now = b.status(home_ctx=of, operation=operation, op_id=b.OP, archive_key=KEY if key else None)
    row = b.workspace(now=now, deleted_at=b.NOW if deleted else None)
    once = observe(row, seen, b.NOW)
    assert observe(b.with_status(row, conditions=once), seen, b.later(60)) == once


@given(homes, looks)
@settings(max_examples=100)
def test_looking_never_judges_health_nor_forgets_unknown_conditions(of: HomeContext, seen: Seen) -> None:
    found = observe(b.workspace(now=b.status(home_ctx=of, conditions=SEEN_EARLIER)), seen, b.NOW)
    assert (found.healthy, found.others) == (EARLIER, {"more": 1})


@given(homes, volumes)
@settings(max_examples=100)
def test_a_volume_that_is_there_is_live_or_left_over_or_unknown(of: HomeContext, volume: VolumeSeen) -> None:
    kinds = [is_live(of, volume), is_leftover(of, volume), is_unknown(of, volume)]
    assert sum(kinds) == (1 if volume.exists else 0)


@given(homes)
@settings(max_examples=50)
def test_of_what_could_not_be_looked_at_nothing_is_said(of: HomeContext) -> None:
    assert not any(rule(of, None) for rule in (is_live, is_leftover, is_unknown))
    assert not is_asked_for(of, None)


@given(homes, volumes)
@settings(max_examples=100)
def test_ready_means_live(of: HomeContext, volume: VolumeSeen) -> None:
    before = Conditions(volume_ready=Condition(status=False))
    found = observe(b.workspace(now=b.status(home_ctx=of, conditions=before)), Seen(volume=volume, jobs=()), b.NOW)
    assert found.volume_ready.status is is_live(of, volume)
