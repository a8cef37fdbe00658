"""Further bugs that a reviewer planted one by one: for each, the shortest trace that shows it, and how it ends now."""

import pytest

from codehub.model import actions as a
from codehub.model.workspace import UNLABELLED, Desired, ErrorReason, Operation, Phase, RecoverFrom, VolumeState
from tests.model.traces import (
    assert_at,
    assert_in_error,
    assert_nothing_was_lost,
    fails_to_start,
    go,
    home,
    settled,
    time_passes,
    until,
    until_about_to,
    until_at,
    until_error,
)
from tests.model.world import Volume, World


def test_each_operation_draws_its_own_op_id_so_newer_data_is_uploaded() -> None:
    world = settled(Desired.ARCHIVED, Desired.RUNNING)
    first = world.row.status.archive_key
    world.write()
    go(world, Desired.ARCHIVED)
    assert world.row.status.archive_key != first
    assert_nothing_was_lost(world)
    assert home(world).content == 2


def test_the_volume_is_deleted_only_after_the_archive_key_is_committed() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    assert world._saved()
    assert world.row.status.home_ctx.volume is VolumeState.CONDEMNED


def test_the_volume_stays_while_its_committed_archive_cannot_be_verified() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    world.out.add("store")
    for _ in range(5):
        world.tick()
    assert world.volume is not None
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert world.volume is None


def test_a_committed_archive_that_breaks_before_the_volume_is_deleted_leaves_the_volume_to_a_person() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    world.damage_archive()
    world.settle()
    assert_in_error(world, ErrorReason.ARCHIVE_CORRUPTED)
    world.ask_recover(RecoverFrom.VOLUME)
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)


def test_an_old_marker_does_not_complete_a_new_restore() -> None:
    """The first restore is done but for its last look; then its archive breaks, and is uploaded again by hand."""
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until(world, lambda: world.row.status.home_ctx.restore_marker)
    key = world.row.status.archive_key
    assert key is not None
    world.damage_archive()
    until_error(world, ErrorReason.ARCHIVE_CORRUPTED)
    world.archives[key].damaged = False
    world.ask_recover(RecoverFrom.AS_IS)
    assert world.row.status.operation is Operation.RESTORING
    assert world.row.status.home_ctx.restore_marker is None
    until_at(world, Phase.STANDBY)
    assert home(world).restored_by == world.row.status.op_id
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STANDBY])
def test_what_cannot_be_looked_at_is_not_lost(phase: Phase) -> None:
    world = settled() if phase is Phase.RUNNING else settled(Desired.STANDBY)
    world.out.add("driver")
    for _ in range(5):
        world.tick()
        time_passes(world)
    assert_at(world, phase)
    world.settle()
    assert_at(world, phase)
    assert_nothing_was_lost(world)


def test_what_cannot_be_looked_at_during_an_operation_is_waited_for() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until(world, lambda: world.jobs)
    world.out |= {"driver", "store"}
    for _ in range(5):
        world.tick()
        time_passes(world)
    assert world.row.status.operation is Operation.ARCHIVING
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)


def test_an_error_stays_until_a_person_recovers_it() -> None:
    world = fails_to_start()
    for _ in range(5):
        world.tick()
        time_passes(world)
        assert_in_error(world, ErrorReason.RETRY_EXCEEDED)
    world.ask_recover(RecoverFrom.AS_IS)
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("wish", ["wake", "blank", "delete"])
def test_a_volume_that_no_operation_made_is_never_removed(wish: str) -> None:
    world = settled(Desired.ARCHIVED)
    theirs = world.volume = Volume(UNLABELLED, uid="by hand", content=world.newest)
    match wish:
        case "wake":
            world.ask(Desired.RUNNING)
        case "blank":
            world.tick()
            world.ask_recover(RecoverFrom.BLANK)
        case "delete":
            world.ask_delete()
    world.settle()
    assert world.volume is theirs
    if wish != "delete":
        assert_in_error(world, ErrorReason.VOLUME_UNKNOWN)


def test_a_volume_that_appears_by_hand_during_a_restore_is_never_removed() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.CreateVolume)
    theirs = world.volume = Volume(UNLABELLED, uid="by hand", content=world.newest)
    world.settle()
    assert_in_error(world, ErrorReason.VOLUME_UNKNOWN)
    assert world.volume is theirs
    world.ask_recover(RecoverFrom.VOLUME)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert world.volume is theirs


@pytest.mark.parametrize("source", [RecoverFrom.ARCHIVE, RecoverFrom.BLANK])
def test_a_lost_home_that_comes_back_later_is_left_to_a_person(source: RecoverFrom) -> None:
    world = settled(Desired.ARCHIVED, Desired.STANDBY)
    lost = home(world)
    world.lose_volume()
    world.settle()
    world.ask_recover(source)
    world.volume = lost  # its node is back
    world.settle()
    assert_in_error(world, ErrorReason.VOLUME_UNKNOWN)
    assert world.volume is lost
    world.ask_recover(RecoverFrom.VOLUME)
    world.settle()
    assert_at(world, Phase.STANDBY)
    assert world.volume is lost
    assert home(world).content == world.newest == 1


def test_half_a_restore_is_never_made_live_not_even_by_a_person() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until(world, lambda: world.row.status.phase is Phase.ERROR, jobs="stops half way")
    assert home(world).content is None
    world.ask_recover(RecoverFrom.VOLUME)
    assert_at(world, Phase.ERROR)
    world.ask_recover(RecoverFrom.AS_IS)
    world.settle()
    assert_at(world, Phase.STANDBY)
    assert_nothing_was_lost(world)


def test_a_leftover_volume_is_removed_once_the_home_is_archived() -> None:
    """A creation that hung during the restore lands after the home went back into its archive."""
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until_about_to(world, a.CreateVolume)
    world.tick("action hangs")
    until_at(world, Phase.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_at(world, Phase.ARCHIVED)
    world.land_late()
    assert home(world).content == 0, "it is blank"
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert world.volume is None
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("goal", [Desired.ARCHIVED, Desired.STANDBY])
def test_a_failed_job_is_removed_and_tried_again(goal: Desired) -> None:
    world = settled(Desired.STANDBY) if goal is Desired.ARCHIVED else settled(Desired.ARCHIVED)
    world.ask(goal)
    until(world, lambda: world.jobs, jobs="fails")
    world.run_jobs("fails")
    world.settle()
    assert_at(world, Phase(goal.value))
    assert world.row.status.error_reason is None
    assert_nothing_was_lost(world)


def test_a_job_that_lands_late_beside_no_operation_is_removed() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until_about_to(world, a.StartRestoreJob)
    world.tick("action hangs")
    until_at(world, Phase.STANDBY)
    world.land_late()
    assert world.jobs
    world.settle()
    assert not world.jobs
    assert_nothing_was_lost(world)


def test_an_operation_does_not_end_while_its_job_cannot_be_looked_at() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until_about_to(world, a.StartRestoreJob)
    world.tick()
    world.damage_archive()
    world.out.add("driver")
    world.tick()
    assert world.row.status.operation is Operation.RESTORING
    world.out.clear()
    world.tick("dies before action")
    assert world.row.status.operation is Operation.RESTORING
    world.settle()
    assert_in_error(world, ErrorReason.ARCHIVE_CORRUPTED)
    assert not world.jobs


def test_there_is_an_endpoint_only_while_running() -> None:
    world = World(Desired.RUNNING)
    for goal in (Desired.RUNNING, Desired.STANDBY, Desired.RUNNING, Desired.ARCHIVED, Desired.RUNNING):
        world.ask(goal)
        for _ in range(15):
            world.tick()
            world.run_jobs()
            status = world.row.status
            running = (status.phase, status.operation) == (Phase.RUNNING, Operation.NONE)
            assert (status.endpoint is not None) == running
    world.instance_dies()
    world.tick()
    assert world.row.status.endpoint is None


def test_a_blank_volume_of_the_same_incarnation_is_not_taken_for_the_home() -> None:
    world = World(Desired.RUNNING)
    until_about_to(world, a.CreateVolume)
    world.tick("action hangs")
    until_at(world, Phase.RUNNING)
    world.write()
    world.lose_volume()
    world.land_late()
    assert home(world).incarnation == world.row.status.home_ctx.incarnation
    world.settle()
    assert_in_error(world, ErrorReason.DATA_LOST)
    assert world.instance is None


def test_an_archive_of_a_home_that_was_replaced_is_never_committed() -> None:
    """The job ends once its operation was put off; the home is written to again, and the old archive stays unused."""
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    world.tick("action hangs")
    time_passes(world)
    until_at(world, Phase.STANDBY)
    old = world.row.status.op_id
    world.land_late()
    world.run_jobs()
    assert len(world.archives) == 1
    world.tick()
    assert not world.jobs, "during the pause too, no job is left"
    go(world, Desired.RUNNING)
    world.write()
    go(world, Desired.ARCHIVED)
    assert str(old) not in str(world.row.status.archive_key)
    assert_nothing_was_lost(world)


def test_a_stopped_workspace_is_restored_no_further_than_asked() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    world.settle()
    assert_at(world, Phase.STANDBY)
    assert world.instance is None


def test_deleting_a_stopped_workspace_archives_it_first() -> None:
    world = settled(Desired.STANDBY)
    world.ask_delete()
    world.settle()
    assert world.row.wish.deleted_at is not None
    assert (world.volume, world.row.status.phase) == (None, Phase.DELETING)
    world.ask_undelete()
    assert_nothing_was_lost(world)
