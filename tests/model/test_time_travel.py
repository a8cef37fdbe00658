"""A database that went back in time: what the rules make of a world that is newer than the row."""

from dataclasses import replace
from uuid import UUID

import pytest

from codehub.model import actions as a
from codehub.model.observation import JobSeen, JobState, VolumeSeen
from codehub.model.wishes import undelete
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    OpId,
    Phase,
    RecoverFrom,
    Wish,
    Workspace,
)
from tests.model import builders as b
from tests.model.ticking import RULES, row_with, tick
from tests.model.traces import assert_at, assert_in_error, home, settled, until_about_to
from tests.model.world import RETENTION, World

THEIR_OP = OpId(UUID(int=71))  # of a restore that the database does not remember
KEY = ArchiveKey("key")
THEIRS = VolumeSeen(True, Incarnation(str(THEIR_OP)), "u9")
RUNNING, SUCCEEDED, FAILED = JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED


def back_to(world: World, then: Workspace) -> None:
    """Commits are lost, or a backup is restored by other means: the row is as it was, the world is not."""
    world.row = replace(world.row, status=then.status, wish=then.wish)
    world.damaged = True  # the row need not lead to the newest version any more; each test says what does


def test_a_restore_that_had_ended_is_not_run_over_what_was_written_since() -> None:
    """On a volume without attributes the job itself would not know that it had been there."""
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartRestoreJob)
    then = world.row
    world.settle()
    assert_at(world, Phase.RUNNING)
    world.write()
    written = home(world).content
    home(world).restored_by = None  # no attributes
    back_to(world, then)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert home(world).content == written == world.newest


def test_a_home_is_marked_before_anybody_works_in_it() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    assert home(world).marked


def test_a_home_from_before_there_were_marks_is_marked_where_it_rests() -> None:
    world = settled(Desired.STANDBY)
    home(world).marked = False
    world.settle()
    assert home(world).marked


def their_job(state: JobState, **fields: object) -> JobSeen:
    return replace(JobSeen(THEIR_OP, state, THEIRS.uid), **fields)  # type: ignore[arg-type]


def decided(job: JobSeen, seconds: float = 0) -> a.Action | None:
    seen = replace(b.NOTHING, volume=THEIRS, jobs=(job,))
    return tick(row_with(seen, phase=Phase.PENDING, desired_state=Desired.ARCHIVED), seen, seconds).action


def test_a_restore_that_would_complete_the_volume_is_left_to_do_so_and_its_end_is_noted_beside_the_volume() -> None:
    assert decided(their_job(RUNNING)) is None, "killed, it would leave half a home"
    assert decided(their_job(SUCCEEDED, restore_marker="key")) == a.MarkWhole(THEIRS.ref)
    assert decided(their_job(FAILED)) == a.RemoveJob(THEIR_OP)
    limit = RULES.time_limits[Operation.RESTORING].total_seconds()
    assert decided(their_job(RUNNING), limit + 1) == a.RemoveJob(THEIR_OP), "it stands still"
    succeeded = their_job(SUCCEEDED, restore_marker="key")
    assert decided(succeeded, limit - 1) == a.MarkWhole(THEIRS.ref)
    assert decided(succeeded, limit + 1) == a.RemoveJob(THEIR_OP), "the mark is refused again and again"
    assert decided(their_job(RUNNING), -limit) is None, "the clock jumped back: the limit counts from now"
    assert decided(JobSeen(THEIR_OP, RUNNING, "another")) == a.RemoveJob(THEIR_OP), "it completes nothing"


@pytest.mark.parametrize("how", ["well", "stops half way"])
def test_a_half_restored_volume_is_never_made_live_and_one_that_its_job_completed_is(how: str) -> None:
    """The backup is from before the restore; it goes on while the database is restored."""
    world = settled(Desired.ARCHIVED)
    then = world.row
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartRestoreJob)
    world.tick()
    back_to(world, then)
    world.tick()
    assert world.jobs, "killed, it would leave half a home"
    world.run_jobs(how)
    world.settle()
    assert_in_error(world, ErrorReason.VOLUME_UNKNOWN)
    assert not world.jobs
    assert home(world).marked == (how == "well")
    world.ask_recover(RecoverFrom.VOLUME)
    world.settle()
    if how == "well":
        assert_at(world, Phase.ARCHIVED)
        assert world.archives[world.row.status.archive_key or KEY].content == world.newest
    else:
        assert_in_error(world, ErrorReason.VOLUME_UNKNOWN)
        assert "Recover from the archive" in world.row.status.conditions.healthy.message
        world.ask_recover(RecoverFrom.ARCHIVE)
        world.settle()
        assert_at(world, Phase.ARCHIVED)


def test_a_home_in_the_place_of_the_one_that_the_row_knows_is_offered_and_taken() -> None:
    world = settled(Desired.STANDBY)
    then = world.row
    world.ask(Desired.ARCHIVED)
    world.settle()
    world.ask(Desired.RUNNING)
    world.settle()
    world.write()
    back_to(world, then)
    world.settle()
    assert_in_error(world, ErrorReason.DATA_LOST)
    assert "recover from the volume" in world.row.status.conditions.healthy.message
    written = home(world).content
    world.ask_recover(RecoverFrom.VOLUME)
    world.settle()
    assert_at(world, Phase.STANDBY)
    assert home(world).content == written


def test_a_workspace_that_was_undeleted_since_is_not_stuck_in_its_deletion() -> None:
    """Its home is on a volume that the row does not know; nothing removes that, and it must not bar the way back."""
    world = settled(Desired.ARCHIVED)
    world.ask_delete()
    world.settle()
    assert world.row.status.phase is Phase.DELETING
    then = world.row
    world.ask_undelete()
    world.ask(Desired.RUNNING)
    world.settle()
    assert_at(world, Phase.RUNNING)
    world.write()
    written = home(world).content
    back_to(world, then)
    world.settle()
    assert isinstance(undelete(world.row, world.now, RETENTION), Wish)
    world.ask_undelete()
    world.settle()
    assert_in_error(world, ErrorReason.VOLUME_UNKNOWN)
    world.ask_recover(RecoverFrom.VOLUME)
    world.ask(Desired.RUNNING)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert home(world).content == written


def test_what_is_deleted_waits_for_no_restore() -> None:
    job = their_job(RUNNING)
    seen = replace(b.NOTHING, volume=THEIRS, jobs=(job,))
    row = row_with(seen, phase=Phase.DELETING, home_ctx=HomeContext(), desired_state=Desired.DELETED, deleted_at=b.NOW)
    assert tick(row, seen).action == a.RemoveJob(THEIR_OP)
