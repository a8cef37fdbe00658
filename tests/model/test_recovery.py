"""Recovery: one answer to one error, honoured once; half a home is never made live, a whole one never given up."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.conditions import Condition, Conditions
from codehub.model.observation import JobSeen, JobState, Seen, VolumeSeen
from codehub.model.recovery import honour, is_pending, is_refused
from codehub.model.workspace import (
    UNLABELLED,
    ArchiveKey,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    OpId,
    Phase,
    RecoverFrom,
    RecoverRequest,
    VolumeState,
    Workspace,
)
from tests.model import builders as b

V, R = VolumeState, RecoverFrom
KEY = ArchiveKey("key")
ASKED = UUID(int=70)
OLD, STRANGE = Incarnation("old"), Incarnation(str(UUID(int=71)))
STRANGER = VolumeSeen(True, STRANGE, "u9", whole=True)
UNPROVEN = VolumeSeen(True, STRANGE, "u9")
BY_HAND = VolumeSeen(True, UNLABELLED, "")
OWN = VolumeSeen(True, b.MADE, "u1", whole=True)
HALF = VolumeSeen(True, b.MADE, "u1")


def in_error(
    source: RecoverFrom = R.AS_IS,
    *,
    home: HomeContext = b.LIVE_HOME,
    forced: bool = False,
    answers: str | None = "DataLost",
    archive: str = "ArchiveUploaded",
    deleted: bool = False,
    **status: Any,
) -> Workspace:
    status = {
        "phase": Phase.ERROR,
        "error_reason": ErrorReason.DATA_LOST,
        "error_count": 3,
        "retry_at": b.NOW,
        "archive_key": KEY,
        "home_ctx": home,
        "op_id": b.OP,
        "conditions": Conditions(archive_ready=Condition(archive == "ArchiveUploaded", archive)),
        **status,
    }
    request = RecoverRequest(ASKED, source, answers, forced)
    return b.workspace(now=b.status(**status), recover_request=request, deleted_at=b.NOW if deleted else None)


def home(volume: VolumeState, *retired: Incarnation) -> HomeContext:
    return HomeContext(volume=volume, incarnation=b.MADE, retired=retired)


GOING = replace(home(V.CONDEMNED), removal_asked=True)


def test_a_plain_recovery_clears_the_error_and_nothing_else() -> None:
    row = in_error()
    found = honour(row, b.NOTHING)
    expected = replace(row.status, error_reason=None, error_count=0, retry_at=None, recover_handled_id=ASKED)
    assert found == expected


def test_a_request_is_honoured_once() -> None:
    row = in_error()
    once = honour(row, b.NOTHING)
    again = b.with_status(replace(row, status=once), error_reason=ErrorReason.DATA_LOST)
    assert not is_pending(again)
    assert honour(again, b.NOTHING) == again.status


def test_without_a_request_nothing_changes() -> None:
    row = b.workspace(now=b.status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT))
    assert not is_pending(row)
    assert honour(row, b.NOTHING) == row.status


def test_while_the_volume_cannot_be_looked_at_the_request_waits() -> None:
    row = in_error(R.BLANK)
    assert honour(row, Seen()) == row.status
    assert is_pending(row)


@pytest.mark.parametrize(
    "row",
    [
        in_error(R.BLANK, answers="Timeout"),
        in_error(R.BLANK, answers=None),
        in_error(R.BLANK, deleted=True),
        in_error(R.BLANK, phase=Phase.STANDBY),
    ],
    ids=["another error", "no error", "deleted", "not in ERROR"],
)
def test_an_answer_to_what_is_no_longer_the_matter_is_only_noted(row: Workspace) -> None:
    assert honour(row, b.NOTHING) == replace(row.status, recover_handled_id=ASKED)


@pytest.mark.parametrize(
    ("of", "volume", "archive", "made_live"),
    [
        (home(V.NONE), STRANGER, "ArchiveUploaded", True),
        (HomeContext(), STRANGER, "NoArchive", True),
        (home(V.LIVE), STRANGER, "ArchiveUploaded", True),
        (home(V.LIVE), OWN, "ArchiveUploaded", True),
        (home(V.LIVE), b.NO_VOLUME, "ArchiveUploaded", False),
        (home(V.RESTORING), HALF, "ArchiveUploaded", False),  # half restored
        (home(V.RESTORING), HALF, "ArchiveNotFound", False),  # … and half it stays
        (home(V.RESTORING), OWN, "ArchiveNotFound", True),  # it was whole before the database forgot that
        (home(V.NONE), UNPROVEN, "ArchiveUploaded", False),  # a restore into it may not have ended
        (home(V.LIVE), UNPROVEN, "ArchiveNotFound", False),
        (home(V.NONE), BY_HAND, "ArchiveUploaded", True),  # whoever made it knows what is in it
        (home(V.RESTORING), STRANGER, "ArchiveUploaded", True),
        (GOING, OWN, "ArchiveUploaded", False),  # may be half deleted, and the archive is intact
        (GOING, OWN, "ArchiveUnreachable", False),
        (GOING, OWN, "ArchiveCorrupted", True),  # the last copy there is
        (GOING, OWN, "ArchiveNotFound", True),
        (home(V.CONDEMNED), OWN, "ArchiveUnreachable", True),  # nobody asked for its removal
        (replace(home(V.CONDEMNED), uid="another"), OWN, "ArchiveUnreachable", False),  # a blank one that landed late
        (home(V.LIVE, OLD), VolumeSeen(True, OLD, "u0"), "ArchiveUploaded", False),  # it was moved on from
    ],
)
def test_only_a_volume_that_may_be_whole_is_made_live(
    of: HomeContext, volume: VolumeSeen, archive: str, made_live: bool
) -> None:
    row = in_error(R.VOLUME, home=of, archive=archive)
    found = honour(row, replace(b.NOTHING, volume=volume))
    assert found.recover_handled_id == ASKED
    if made_live:
        assert (found.home_ctx.volume, found.home_ctx.incarnation) == (V.LIVE, volume.incarnation)
        assert (found.home_ctx.uid, found.home_ctx.restore_marker) == (volume.uid, None)
        assert found.error_reason is None
    else:
        assert (found.home_ctx, found.error_reason) == (of, ErrorReason.DATA_LOST)
    assert found.archive_key == KEY


@pytest.mark.parametrize("source", [R.ARCHIVE, R.BLANK])
def test_a_whole_volume_is_given_up_only_by_force(source: RecoverFrom) -> None:
    seen = replace(b.NOTHING, volume=b.LIVE_VOLUME)
    refused = honour(in_error(source), seen)
    assert (refused.home_ctx, refused.error_reason, refused.archive_key) == (b.LIVE_HOME, ErrorReason.DATA_LOST, KEY)
    forced = honour(in_error(source, forced=True), seen)
    assert forced.home_ctx.volume is V.NONE
    assert forced.home_ctx.knows(b.MADE)  # and then it may be removed
    assert forced.error_reason is None


@pytest.mark.parametrize(("source", "key"), [(R.ARCHIVE, KEY), (R.BLANK, None)])
def test_only_a_blank_home_drops_the_archive(source: RecoverFrom, key: ArchiveKey | None) -> None:
    found = honour(in_error(source), b.NOTHING)
    assert (found.archive_key, found.home_ctx.volume, found.error_reason) == (key, V.NONE, None)


def test_there_is_nothing_to_recover_without_an_archive() -> None:
    found = honour(in_error(R.ARCHIVE, archive_key=None), b.NOTHING)
    assert found.error_reason is ErrorReason.DATA_LOST
    assert found.home_ctx == b.LIVE_HOME


@pytest.mark.parametrize("source", [R.ARCHIVE, R.BLANK])
def test_a_lost_volume_that_comes_back_is_not_removed_by_itself(source: RecoverFrom) -> None:
    assert not honour(in_error(source), b.NOTHING).home_ctx.knows(b.MADE)


@pytest.mark.parametrize("state", [V.NONE, V.RESTORING, V.CONDEMNED])
@pytest.mark.parametrize("source", [R.ARCHIVE, R.BLANK])
def test_what_was_no_whole_home_may_be_removed_afterwards(state: VolumeState, source: RecoverFrom) -> None:
    found = honour(in_error(source, home=home(state)), replace(b.NOTHING, volume=OWN)).home_ctx
    assert (found.volume, found.incarnation) == (V.NONE, None)
    assert found.knows(b.MADE)


@pytest.mark.parametrize("forced", [False, True])
def test_a_volume_that_nobody_made_is_removed_only_by_force(forced: bool) -> None:
    for source in (R.ARCHIVE, R.BLANK):
        row = in_error(source, home=HomeContext(), forced=forced)
        assert honour(row, replace(b.NOTHING, volume=STRANGER)).home_ctx.knows(STRANGE) is forced


def test_what_may_be_half_restored_gives_way_to_the_archive_and_to_a_blank_home_only_by_force() -> None:
    seen = replace(b.NOTHING, volume=UNPROVEN)
    assert honour(in_error(R.ARCHIVE, home=HomeContext()), seen).home_ctx.knows(STRANGE)
    assert not honour(in_error(R.BLANK, home=HomeContext()), seen).home_ctx.knows(STRANGE)


def test_a_person_who_knows_that_it_is_whole_can_force_it_unless_the_row_knows_better() -> None:
    seen = replace(b.NOTHING, volume=UNPROVEN)
    assert honour(in_error(R.VOLUME, forced=True, home=HomeContext()), seen).home_ctx.volume is V.LIVE
    half = replace(b.NOTHING, volume=HALF)
    assert honour(in_error(R.VOLUME, forced=True, home=home(V.RESTORING)), half).home_ctx.volume is V.RESTORING


def test_a_restore_that_is_still_at_work_is_waited_for() -> None:
    job = JobSeen(OpId(UUID(STRANGE)), JobState.RUNNING, "u9")
    seen = replace(b.NOTHING, volume=UNPROVEN, jobs=(job,))
    row = in_error(R.VOLUME, home=HomeContext())
    assert honour(row, seen) == row.status, "what it is about to say of the volume decides"
    assert honour(row, replace(seen, jobs=())).recover_handled_id == ASKED


def test_recovery_starts_and_names_no_operation() -> None:
    for source in R:
        found = honour(in_error(source), b.NOTHING)
        assert (found.operation, found.op_id) == (Operation.NONE, b.OP)


any_home = st.builds(
    HomeContext,
    volume=st.sampled_from(V),
    incarnation=st.sampled_from([None, b.MADE, OLD]),
    uid=st.sampled_from([None, "u1"]),
    retired=st.lists(st.sampled_from([b.MADE, OLD, STRANGE]), max_size=3).map(tuple),
)
any_volume = st.builds(
    VolumeSeen, st.booleans(), st.sampled_from([b.MADE, OLD, STRANGE]), st.sampled_from(["u1", "u2"]), st.just(True)
)


@given(st.sampled_from(R), any_home, any_volume, st.booleans())
@settings(max_examples=150)
def test_whatever_is_asked_a_half_home_is_never_made_live(
    source: RecoverFrom, of: HomeContext, volume: VolumeSeen, forced: bool
) -> None:
    found = honour(in_error(source, home=of, forced=forced), replace(b.NOTHING, volume=volume)).home_ctx
    if found.volume is V.LIVE and of.volume is not V.LIVE:
        assert source is R.VOLUME
        assert volume.exists
        assert volume.incarnation not in of.retired
        assert not (volume.incarnation == of.incarnation and of.volume in (V.RESTORING, V.CONDEMNED))
    if found.volume is not V.LIVE and of.volume is V.LIVE:
        assert source in (R.ARCHIVE, R.BLANK)


# -- what the API says before the controller does -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "volume", "key", "forced", "refused"),
    [
        (R.AS_IS, "VolumeNotFound", None, False, False),
        (R.AS_IS, "VolumeProvisioned", KEY, False, False),
        (R.VOLUME, "VolumeProvisioned", KEY, False, False),
        (R.VOLUME, "VolumeUnknown", None, False, False),
        (R.VOLUME, "VolumeNotFound", KEY, False, True),
        (R.VOLUME, "VolumeNotFound", KEY, True, True),
        (R.VOLUME, "RestoreIncomplete", KEY, False, True),
        (R.VOLUME, "VolumeUnproven", KEY, False, True),
        (R.VOLUME, "VolumeUnproven", KEY, True, False),
        (R.ARCHIVE, "VolumeUnproven", KEY, False, False),
        (R.BLANK, "VolumeUnproven", KEY, False, True),
        (R.ARCHIVE, "VolumeUnknown", KEY, False, True),
        (R.ARCHIVE, "VolumeUnknown", KEY, True, False),
        (R.ARCHIVE, "VolumeNotFound", KEY, False, False),
        (R.ARCHIVE, "VolumeNotFound", None, False, True),
        (R.ARCHIVE, "VolumeNotFound", None, True, True),
        (R.ARCHIVE, "VolumeProvisioned", KEY, False, True),
        (R.ARCHIVE, "VolumeProvisioned", KEY, True, False),
        (R.ARCHIVE, "RestoreIncomplete", KEY, False, False),
        (R.BLANK, "VolumeNotFound", None, False, False),
        (R.BLANK, "VolumeProvisioned", None, False, True),
        (R.BLANK, "VolumeProvisioned", None, True, False),
        (R.BLANK, "VolumeUnknown", KEY, False, True),
    ],
)
def test_a_source_that_is_not_there_or_not_to_be_given_up_is_refused(
    source: RecoverFrom, volume: str, key: ArchiveKey | None, forced: bool, refused: bool
) -> None:
    seen = Conditions(volume_ready=Condition(volume == "VolumeProvisioned", volume))
    answer = is_refused(b.status(conditions=seen, archive_key=key), source, forced=forced)
    assert (answer is not None) is refused


@pytest.mark.parametrize(
    ("archive", "refused"), [("ArchiveUploaded", True), ("ArchiveTimeout", True), ("ArchiveNotFound", False)]
)
def test_a_condemned_volume_is_taken_when_its_archive_is_lost_or_it_was_not_touched(
    archive: str, refused: bool
) -> None:
    seen = Conditions(Condition(False, "VolumeCondemned"), Condition(archive == "ArchiveUploaded", archive))
    condemned = home(V.CONDEMNED)
    for asked in (True, False):
        now = b.status(conditions=seen, archive_key=KEY, home_ctx=replace(condemned, removal_asked=asked))
        assert (is_refused(now, R.VOLUME, forced=False) is not None) is (refused and asked)


def test_another_volume_than_the_condemned_one_is_taken_although_the_archive_is_whole() -> None:
    """Since the database went back in time: else neither source could be chosen, and nobody got in."""
    seen = Conditions(Condition(False, "VolumeUnknown"), Condition(True, "ArchiveUploaded"))
    now = b.status(conditions=seen, archive_key=KEY, home_ctx=home(V.CONDEMNED))
    assert is_refused(now, R.VOLUME, forced=False) is None
