"""Every row of TRAPS.md, played step by step: the trace that once lost data or ended nowhere, and how it ends now."""

from dataclasses import replace

import pytest

from codehub.model import actions as a
from codehub.model.observation import JobState, Life
from codehub.model.plan import next_operation
from codehub.model.ttl import due
from codehub.model.wishes import Refusal, request_state
from codehub.model.workspace import Desired, ErrorReason, Operation, Phase, RecoverFrom, VolumeState
from tests.model.traces import (
    TOO_LONG,
    assert_at,
    assert_in_error,
    assert_nothing_was_lost,
    fail_until_error,
    fails_to_start,
    go,
    home,
    settled,
    time_passes,
    until,
    until_about_to,
    until_at,
    until_error,
    upcoming,
)
from tests.model.world import World


def test_1_an_error_on_the_way_down_to_a_deletion_keeps_the_volume() -> None:
    world = settled()
    world.ask_delete()
    fail_until_error(world)  # STOPPING: an archive that fails is put off
    world.settle()
    assert home(world).content == world.newest
    assert next_operation(world.row, world.look()).operation is Operation.NONE
    world.ask_recover(RecoverFrom.AS_IS)
    world.settle()
    assert world.row.wish.deleted_at is not None
    assert world.row.status.archive_key is not None
    assert world.archives[world.row.status.archive_key].content == world.newest


def test_2_a_deletion_that_stopped_half_way_is_never_undeleted_into_half_a_home() -> None:
    world = fails_to_start()
    world.ask_delete()  # from ERROR: whoever asks is told that the volume goes unarchived
    until_about_to(world, a.DeleteVolume)
    assert world.row.status.home_ctx.volume is VolumeState.CONDEMNED
    home(world).content = None  # the driver is half way through
    world.ask_undelete()
    assert world.row.wish.deleted_at is not None, "refused until everything is gone"
    world.settle()
    assert world.volume is None
    world.ask_undelete()
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)


def test_2_a_deletion_planned_before_it_was_taken_back_is_not_committed() -> None:
    world = fails_to_start()
    world.ask_delete()
    world.tick("pauses before commit")
    before, decision = world.paused.pop()
    assert decision.status.operation is Operation.DELETING
    world.row = replace(world.row, wish=replace(world.row.wish, deleted_at=None, desired_state=Desired.ARCHIVED))
    assert not world._commit(before, decision)
    assert world.row.status.home_ctx.volume is VolumeState.LIVE


def test_3_a_volume_lost_under_archiving_is_an_error_not_the_older_archive() -> None:
    world = settled(Desired.ARCHIVED, Desired.RUNNING)
    world.write()
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    world.tick()
    world.lose_volume()
    until_error(world, ErrorReason.DATA_LOST)  # at once, not by a timeout
    assert world.newest == 2
    world.ask_recover(RecoverFrom.ARCHIVE)
    go(world, Desired.RUNNING)
    assert home(world).content == world.newest == 1, "the older one only because a person chose it"


def test_3_the_older_archive_does_not_complete_an_archiving_whose_own_archive_is_whole() -> None:
    """The job's record is gone and so is the volume: only the commit of the new key may end this well."""
    world = settled(Desired.ARCHIVED, Desired.RUNNING)
    world.write()
    world.ask(Desired.ARCHIVED)
    until(world, lambda: any(job.state is JobState.SUCCEEDED for job in world.jobs.values()))
    world.jobs.clear()
    world.volume = None
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)
    assert home(world).content == 2


def test_4_a_volume_lost_while_in_error_stays_an_error_after_a_plain_recovery() -> None:
    world = fails_to_start()
    world.lose_volume()
    world.tick()
    assert_in_error(world, ErrorReason.DATA_LOST)
    world.ask_recover(RecoverFrom.AS_IS)
    world.settle()
    assert_in_error(world, ErrorReason.DATA_LOST)
    assert world.volume is None, "nothing was made in its place"
    world.ask_recover(RecoverFrom.ARCHIVE)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert_nothing_was_lost(world)


def test_4_a_loss_that_coincides_with_the_recovery_is_judged_in_the_same_tick() -> None:
    world = fails_to_start()
    world.lose_volume()
    world.ask_recover(RecoverFrom.AS_IS)
    assert_in_error(world, ErrorReason.DATA_LOST)


def test_5_an_empty_volume_in_place_of_the_home_is_neither_archived_nor_committed() -> None:
    """A late creation of the same incarnation leaves what a mount that creates would leave."""
    world = World(Desired.RUNNING)
    until_about_to(world, a.CreateVolume)
    world.tick("pauses before action")
    until_at(world, Phase.RUNNING)
    world.write()
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    world.tick()
    world.lose_volume()
    world.wake_paused()
    assert home(world).incarnation == world.row.status.home_ctx.incarnation
    world.settle()
    assert_in_error(world, ErrorReason.DATA_LOST)
    assert world.row.status.archive_key is None
    assert not world.archives


def test_6_the_result_of_a_restore_does_not_complete_one_into_another_volume() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until_about_to(world, a.CreateVolume)
    world.tick("pauses before action")
    until(world, lambda: any(job.state is JobState.SUCCEEDED for job in world.jobs.values()))
    first = world.row.status.op_id
    world.lose_volume()
    world.wake_paused()  # a blank one, of the very incarnation that was restored
    world.settle()
    assert world.row.status.op_id != first
    assert_at(world, Phase.STANDBY)
    assert_nothing_was_lost(world)


def test_6_a_stored_marker_does_not_complete_a_restore_whose_volume_vanished() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until_about_to(world, a.CreateVolume)
    world.tick("pauses before action")
    until(world, lambda: world.row.status.home_ctx.restore_marker)
    world.jobs.clear()
    world.lose_volume()
    world.wake_paused()
    world.settle()
    assert_at(world, Phase.STANDBY)
    assert_nothing_was_lost(world)


def test_7_an_old_restore_never_puts_its_archive_over_a_home_begun_anew() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartRestoreJob)
    world.tick("pauses before action")
    world.damage_archive()
    until_error(world, ErrorReason.ARCHIVE_CORRUPTED)
    world.ask_recover(RecoverFrom.BLANK)
    assert world.row.status.operation is Operation.PROVISIONING
    world.wake_paused()
    assert world.jobs, "the old job now runs on what the old restore left"
    until(world, lambda: not world.jobs)
    until_at(world, Phase.RUNNING)
    world.write()
    world.settle()
    assert_nothing_was_lost(world)


def test_8_a_deletion_still_pending_never_takes_the_new_home_with_it() -> None:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_error_after_failing_jobs(world)
    half = home(world)
    world.ask_recover(RecoverFrom.AS_IS)
    until_about_to(world, a.DeleteVolume)
    world.tick("action hangs")  # accepted, and pending
    time_passes(world)
    until_error(world, ErrorReason.TIMEOUT)
    world.ask_recover(RecoverFrom.VOLUME)
    assert_in_error(world, ErrorReason.TIMEOUT)  # refused: that volume was moved on from
    world.ask_recover(RecoverFrom.AS_IS)
    for _ in range(5):
        world.tick("action hangs")
        world.run_jobs()
    assert world.volume is half, "it waits for the old volume to go"
    assert not world.jobs
    world.land_late()
    until_at(world, Phase.RUNNING)
    world.write()
    world.settle()
    assert_nothing_was_lost(world)


def test_8_provisioning_starts_from_no_volume_too() -> None:
    world = fails_to_start()
    old = home(world)
    world.ask_recover(RecoverFrom.BLANK, forced=True)
    until_about_to(world, a.DeleteVolume)
    world.tick("action hangs")
    world.tick()
    world.land_late()
    until_at(world, Phase.RUNNING)
    assert home(world).uid != old.uid
    world.write()
    assert_nothing_was_lost(world)


def test_9_a_container_that_exited_by_itself_is_removed_before_anything_else() -> None:
    world = settled()
    world.ask(Desired.STANDBY)
    world.instance_dies()
    world.tick()
    assert (world.row.status.phase, world.row.status.operation) == (Phase.STANDBY, Operation.STOPPING)
    world.settle()
    assert_at(world, Phase.STANDBY)
    assert world.instance is None
    assert_nothing_was_lost(world)


def test_9_a_container_whose_port_hangs_is_running_and_can_be_archived() -> None:
    world = settled()
    assert world.instance is not None
    world.instance.life = Life.ALIVE
    world.tick()
    assert_at(world, Phase.RUNNING)
    go(world, Desired.ARCHIVED)
    assert_nothing_was_lost(world)


def test_10_a_blank_home_begins_when_the_archive_is_corrupted() -> None:
    world = settled(Desired.ARCHIVED)
    world.damage_archive()
    world.ask(Desired.RUNNING)
    world.settle()
    assert_in_error(world, ErrorReason.ARCHIVE_CORRUPTED)
    world.ask_recover(RecoverFrom.BLANK)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert home(world).content == 0
    go(world, Desired.ARCHIVED)


@pytest.mark.parametrize("source", [RecoverFrom.ARCHIVE, RecoverFrom.BLANK])
def test_11_a_container_without_its_volume_is_removed_so_that_a_recovery_gets_somewhere(source: RecoverFrom) -> None:
    world = settled(Desired.ARCHIVED, Desired.RUNNING)
    world.lose_volume()
    world.settle()
    assert_in_error(world, ErrorReason.DATA_LOST)
    assert world.instance is None
    world.ask_recover(source)
    world.settle()
    assert_at(world, Phase.RUNNING)


def test_12_no_ttl_overwrites_a_deletion_or_a_fresh_wake() -> None:
    much_later = World().now + 100 * TOO_LONG
    running, stopped = settled(), settled(Desired.STANDBY)
    assert due(running.row, much_later)
    assert due(stopped.row, much_later)
    stopped.ask(Desired.RUNNING)
    assert due(stopped.row, much_later) is None
    for world in (running, settled(Desired.STANDBY)):
        world.ask_delete()
        assert due(world.row, much_later) is None
        assert isinstance(request_state(world.row, Desired.STANDBY, much_later), Refusal)


def test_13_what_a_late_start_wrote_is_in_the_archive_that_is_committed() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    world.tick("action hangs")
    until_at(world, Phase.RUNNING)
    world.ask(Desired.ARCHIVED)
    until(world, lambda: any(job.state is JobState.SUCCEEDED for job in world.jobs.values()))
    world.land_late()
    world.newest += 1  # a program in it writes; no visitor is let in
    home(world).content = world.newest
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)
    assert home(world).content == 2


def test_13_a_start_that_lands_after_its_timeout_gets_no_endpoint_and_is_removed() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    world.tick("action hangs")
    world.out.add("driver")
    time_passes(world)
    world.tick()
    world.out.clear()
    world.tick("dies before action")
    assert world.row.status.operation is Operation.STARTING, "no deadline ran during the outage"
    time_passes(world)
    until_error(world, ErrorReason.TIMEOUT)
    world.land_late()
    assert upcoming(world) == a.RemoveInstance()
    world.tick()
    assert world.row.status.endpoint is None
    assert world.instance is None
    world.ask_recover(RecoverFrom.AS_IS)
    assert_nothing_was_lost(world)


def test_14_a_paused_leaders_deletion_leaves_the_restored_home_alone() -> None:
    world = settled()
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    world.tick("pauses before action")
    until_at(world, Phase.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_at(world, Phase.RUNNING)
    world.write()
    restored = home(world)
    world.instance_dies()
    world.instance = None  # so that not even being in use protects it
    world.wake_paused()
    assert world.volume is restored
    world.settle()
    assert_nothing_was_lost(world)


def test_15_an_archive_damaged_before_its_commit_is_made_anew_under_another_op_id() -> None:
    world = settled()
    world.ask(Desired.ARCHIVED)
    until(world, lambda: world.archives, jobs="damages")
    damaged = world.row.status.op_id
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert world.row.status.op_id != damaged
    assert_nothing_was_lost(world)


def until_error_after_failing_jobs(world: World) -> None:
    until(world, lambda: world.row.status.phase is Phase.ERROR, jobs="stops half way")
    assert world.row.status.error_reason is ErrorReason.RETRY_EXCEEDED
