"""Steps towards an archive: of a home, and the first of a workspace that has none yet."""

from dataclasses import replace
from typing import Any

import pytest

from codehub.model import actions as a
from codehub.model.failure import Fault
from codehub.model.observation import ArchiveSeen, Seen, VolumeSeen
from codehub.model.steps import Change, Wait
from codehub.model.workspace import (
    ArchiveKey,
    ErrorReason,
)
from tests.model import builders as b
from tests.model.stepping import (
    COMMITTED,
    KEY,
    LEFT_OVER,
    OLD_KEY,
    OLD_REF,
    OWN,
    OWN_REF,
    RUNNING,
    STRANGER,
    A,
    J,
    Op,
    V,
    act,
    change,
    during,
    job,
    seeing,
    step,
)

# -- ARCHIVING ------------------------------------------------------------------------------------------------------

ARCHIVE = a.StartArchiveJob(b.OP, OWN_REF)

GOING = replace(COMMITTED, removal_asked=True)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (seeing(volume=OWN, op_archive=A.MISSING), ARCHIVE),
        (seeing(volume=OWN, op_archive=A.MISSING, jobs=job(J.RUNNING)), None),
        (seeing(volume=OWN, op_archive=A.VERIFIED, jobs=job(J.RUNNING)), None),
        (seeing(volume=OWN, op_archive=A.LISTED, jobs=job(J.SUCCEEDED)), None),
        (seeing(volume=OWN, op_archive=A.UNREACHABLE), None),
        (seeing(volume=OWN, op_archive=A.TIMEOUT, jobs=job(J.SUCCEEDED)), None),
        (seeing(volume=OWN), None),
        (seeing(volume=VolumeSeen(False), op_archive=A.MISSING), None),
        (seeing(volume=STRANGER, op_archive=A.MISSING), None),
    ],
)
def test_archiving_until_the_commit(seen: Seen, expected: a.Action | None) -> None:
    row = during(Op.ARCHIVING)
    assert act(row, seen) == expected
    if expected is None:
        assert isinstance(step(row, seen), Wait)


@pytest.mark.parametrize("op_archive", [A.LISTED, A.VERIFIED])
def test_an_archive_whose_job_is_forgotten_never_takes_the_place_of_a_home_that_is_there(
    op_archive: ArchiveSeen,
) -> None:
    """The database went back to before it was abandoned, and somebody has worked in the home since."""
    row = during(Op.ARCHIVING)
    found = change(row, seeing(volume=OWN, op_archive=op_archive))
    assert (found.op_id, found.operation, found.archive_key) == (b.NEXT_OP, Op.ARCHIVING, OLD_KEY)
    assert found.home_ctx == row.status.home_ctx
    assert (found.error_reason, found.error_count) == (ErrorReason.ACTION_FAILED, 1)
    assert found.retry_at is not None, "whatever removes the jobs does not have it archived without a pause"


@pytest.mark.parametrize(
    ("jobs", "volume"),
    [
        (job(J.SUCCEEDED), OWN), (job(J.FAILED), OWN),
        ((), b.NO_VOLUME), (job(J.SUCCEEDED), b.NO_VOLUME), (job(J.FAILED), b.NO_VOLUME),
    ],
)  # fmt: skip
def test_the_verified_archive_is_committed_and_the_volume_condemned_in_one(jobs: Any, volume: VolumeSeen) -> None:
    found = change(during(Op.ARCHIVING), seeing(volume=volume, op_archive=A.VERIFIED, jobs=jobs))
    assert (found.archive_key, found.home_ctx.volume) == (KEY, V.CONDEMNED)
    assert (found.op_id, found.operation) == (b.OP, Op.ARCHIVING)


@pytest.mark.parametrize("seen_as", [A.MISSING, A.CORRUPTED, A.EXPIRED])
def test_an_archive_that_fails_verification_is_made_again_under_a_new_op_id(seen_as: ArchiveSeen) -> None:
    row = during(Op.ARCHIVING)
    found = change(row, seeing(volume=OWN, op_archive=seen_as, jobs=job(J.SUCCEEDED)))
    assert (found.op_id, found.error_reason, found.error_count) == (b.NEXT_OP, ErrorReason.ACTION_FAILED, 1)
    assert (found.archive_key, found.home_ctx) == (OLD_KEY, row.status.home_ctx)


def test_what_somebody_else_may_have_written_meanwhile_is_archived_anew_under_a_new_op_id() -> None:
    row = during(Op.ARCHIVING)
    seen = seeing(volume=OWN, op_archive=A.VERIFIED, jobs=job(J.SUCCEEDED, in_use="sh (1) has it open."))
    found = change(row, seen)
    assert (found.op_id, found.archive_key, found.home_ctx.volume) == (b.NEXT_OP, OLD_KEY, V.LIVE)
    assert (found.error_count, found.conditions.healthy.message) == (1, "Sh (1) has it open.")


def test_a_failed_archive_job_says_why() -> None:
    failed = job(J.FAILED, message="disk full")
    found = step(during(Op.ARCHIVING), seeing(volume=OWN, op_archive=A.MISSING, jobs=failed))
    assert found == Fault(ErrorReason.ACTION_FAILED, "disk full")


@pytest.mark.parametrize(
    ("op_archive", "jobs"),
    [(A.VERIFIED, ()), (A.LISTED, ()), (A.MISSING, job(J.RUNNING)), (A.VERIFIED, job(J.SUCCEEDED))],
)
def test_if_an_instance_appears_before_the_commit_the_archive_is_made_anew(op_archive: ArchiveSeen, jobs: Any) -> None:
    seen = seeing(volume=OWN, instance=b.running(b.op(5)), op_archive=op_archive, jobs=jobs)
    found = change(during(Op.ARCHIVING), seen)
    assert (found.op_id, found.archive_key, found.home_ctx.volume) == (b.NEXT_OP, OLD_KEY, V.LIVE)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (seeing(volume=OWN, archive=A.VERIFIED), a.DeleteVolume(OWN_REF, b.OP)),
        (seeing(volume=LEFT_OVER, archive=A.VERIFIED), a.DeleteVolume(OLD_REF, b.OP)),
        (seeing(volume=OWN, archive=A.VERIFIED, jobs=job(J.SUCCEEDED)), a.RemoveJob(b.OP)),
        (seeing(volume=OWN, archive=A.VERIFIED, instance=RUNNING), a.RemoveInstance()),
        *[(seeing(volume=OWN, archive=archive), None) for archive in (None, *A) if archive is not A.VERIFIED],
        (seeing(volume=None, archive=A.VERIFIED), None),
        (seeing(archive=A.VERIFIED), None),
    ],
)
def test_after_the_commit_the_volume_goes_once_all_else_is_gone_and_the_archive_verified(
    seen: Seen, expected: a.Action | None
) -> None:
    assert act(during(Op.ARCHIVING, home_ctx=GOING, archive_key=KEY), seen) == expected


def test_that_the_volume_is_to_go_is_committed_before_it_is_asked_for() -> None:
    found = step(during(Op.ARCHIVING, home_ctx=COMMITTED, archive_key=KEY), seeing(volume=OWN, archive=A.VERIFIED))
    assert isinstance(found, Change)
    assert (found.status.home_ctx, found.action) == (GOING, a.DeleteVolume(OWN_REF, b.OP))


def test_after_the_commit_a_volume_that_nobody_made_stays() -> None:
    found = step(during(Op.ARCHIVING, home_ctx=COMMITTED), seeing(volume=STRANGER, archive=A.VERIFIED))
    assert isinstance(found, Fault)


# -- CREATE_EMPTY_ARCHIVE -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [None, ArchiveKey("source")], ids=["empty", "a copy"])
@pytest.mark.parametrize("op_archive", [A.MISSING, A.LISTED])
def test_the_first_archive_is_empty_or_a_copy_of_its_source(source: ArchiveKey | None, op_archive: ArchiveSeen) -> None:
    row = during(Op.CREATE_EMPTY_ARCHIVE, source=source, archive_key=None)
    assert act(row, seeing(op_archive=op_archive)) == a.MakeArchive(b.OP, source)


@pytest.mark.parametrize("op_archive", [None, A.UNREACHABLE, A.TIMEOUT])
def test_the_first_archive_waits_for_the_store(op_archive: ArchiveSeen | None) -> None:
    row = during(Op.CREATE_EMPTY_ARCHIVE, archive_key=None)
    assert isinstance(step(row, seeing(op_archive=op_archive)), Wait)


def test_the_first_archive_is_committed_once_verified() -> None:
    assert change(during(Op.CREATE_EMPTY_ARCHIVE, archive_key=None), seeing(op_archive=A.VERIFIED)).archive_key == KEY


@pytest.mark.parametrize("op_archive", [A.CORRUPTED, A.EXPIRED])
def test_a_bad_first_archive_is_made_again_under_a_new_op_id(op_archive: ArchiveSeen) -> None:
    found = change(during(Op.CREATE_EMPTY_ARCHIVE, archive_key=None), seeing(op_archive=op_archive))
    assert (found.op_id, found.archive_key, found.error_count) == (b.NEXT_OP, None, 1)
