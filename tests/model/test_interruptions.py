"""Calls that land late, containers that die, outages and a person's answers, each at the worst moment."""

from datetime import timedelta

import pytest

from codehub.model import actions as a
from codehub.model.observation import Life
from codehub.model.steps import Act, next_step
from codehub.model.workspace import UNLABELLED, Desired, ErrorReason, HomeContext, Operation, Phase, RecoverFrom
from tests.model import builders as b
from tests.model.traces import (
    assert_at,
    assert_in_error,
    assert_nothing_was_lost,
    fail_until_error,
    fails_to_start,
    home,
    settled,
    until,
    until_about_to,
    until_at,
    until_error,
)
from tests.model.world import Volume, World


def with_a_start_asleep() -> World:
    """RUNNING, while an earlier call of the same start has yet to land."""
    world = settled(Desired.STANDBY)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    world.tick("action hangs")
    until_at(world, Phase.RUNNING)
    return world


# -- late calls -------------------------------------------------------------------------------------------------------


def test_a_start_that_lands_after_the_stop_is_removed_and_gets_no_endpoint() -> None:
    world = with_a_start_asleep()
    world.ask(Desired.STANDBY)
    until_at(world, Phase.STANDBY)
    world.land_late()
    world.tick()
    assert world.row.status.endpoint is None
    assert world.row.status.phase is Phase.STANDBY
    world.settle()
    assert world.instance is None


def test_a_start_that_lands_under_an_archiving_is_no_running_workspace() -> None:
    """Its container had vanished without a STOPPING: the start's op_id must not count any longer."""
    world = with_a_start_asleep()
    world.instance = None
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    world.land_late()
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)


def test_a_start_that_lands_before_the_next_one_is_removed_first() -> None:
    world = with_a_start_asleep()
    world.ask(Desired.STANDBY)
    until_at(world, Phase.STANDBY)
    world.land_late()
    world.ask(Desired.RUNNING)
    until_at(world, Phase.RUNNING)
    assert world.instance is not None
    assert world.instance.op_id == world.row.status.op_id
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("archived", [True, False])
def test_a_home_lost_under_a_start_that_landed_late_is_an_error_at_once(archived: bool) -> None:
    """Whatever was archived by then may lack what that start wrote: it neither counts nor changes the phase."""
    world = with_a_start_asleep()
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    world.tick()
    if archived:
        world.run_jobs()
    world.land_late()
    world.lose_volume()
    until_error(world, ErrorReason.DATA_LOST)
    world.ask_recover(RecoverFrom.BLANK)
    world.settle()
    assert_at(world, Phase.ARCHIVED)


def test_a_home_lost_once_its_archive_is_whole_is_archived_however_long_the_pause_before_the_commit() -> None:
    """The call that started the job was answered too late, so the next step waits; meanwhile the phase stays."""
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    world.tick("action lands but fails")
    world.row = b.with_status(world.row, retry_at=world.now + timedelta(minutes=1))
    world.run_jobs()
    world.lose_volume()
    world.tick()
    assert (world.row.status.phase, world.row.status.operation) == (Phase.STANDBY, Operation.ARCHIVING)
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)


# -- containers -------------------------------------------------------------------------------------------------------


def test_a_container_that_keeps_dying_ends_in_error_with_its_home_kept() -> None:
    world = settled()
    for _ in range(40):
        world.tick()
        if world.row.status.phase is Phase.RUNNING:
            world.instance_dies()
        world.check()
    assert_in_error(world, ErrorReason.RETRY_EXCEEDED)
    world.ask_recover(RecoverFrom.AS_IS)
    assert_nothing_was_lost(world)


def test_starting_is_complete_only_when_the_container_takes_traffic() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.RUNNING)
    until(world, lambda: world.instance)
    assert world.instance is not None
    world.instance.life = Life.ALIVE
    world.tick()
    assert world.row.status.operation is Operation.STARTING
    world.instance.life = Life.READY
    assert_nothing_was_lost(world)


def test_a_purge_removes_the_container_before_the_volume_and_keeps_nothing() -> None:
    world = settled()
    world.ask_delete(purge=True)
    world.settle()
    assert_at(world, Phase.DELETED)
    assert (world.instance, world.volume) == (None, None)


# -- outages and failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", [Desired.STANDBY, Desired.ARCHIVED])
def test_nothing_that_needs_the_store_begins_while_it_is_out(goal: Desired) -> None:
    world = settled(Desired.ARCHIVED) if goal is Desired.STANDBY else settled(Desired.STANDBY)
    world.out.add("store")
    world.ask(goal)
    for _ in range(5):
        world.tick()
    assert world.row.status.operation is Operation.NONE
    world.settle()
    assert_at(world, Phase(goal.value))
    assert_nothing_was_lost(world)


def test_no_number_of_unreachable_calls_is_an_error() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    world.out.add("store")  # in this world, calls fail while anything is out
    for _ in range(30):
        world.tick()
    assert world.row.status.operation is Operation.STARTING
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("goal", [Desired.STANDBY, Desired.ARCHIVED])
def test_one_failure_of_a_job_counts_once_however_long_its_removal_takes(goal: Desired) -> None:
    world = settled(Desired.ARCHIVED) if goal is Desired.STANDBY else settled(Desired.STANDBY)
    world.ask(goal)
    until(world, lambda: world.jobs, jobs="fails")
    world.run_jobs("fails")
    for _ in range(8):
        world.tick("dies before action")
    assert world.row.status.error_count == 1
    world.settle()
    assert_at(world, Phase(goal.value))


# -- a person's answers -----------------------------------------------------------------------------------------------


def test_a_volume_made_live_by_a_person_is_not_shown_through_a_container_of_the_lost_one() -> None:
    world = settled(Desired.ARCHIVED, Desired.RUNNING)
    world.lose_volume()
    world.tick("dies before action")  # the container on the lost volume is still there
    world.volume = Volume(UNLABELLED, uid="by hand", content=1)
    world.tick("dies before action")
    world.ask_recover(RecoverFrom.VOLUME)
    world.check()
    assert world.row.status.endpoint is None
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert world.instance is not None
    assert world.instance.volume is world.volume


@pytest.mark.parametrize("source", [RecoverFrom.ARCHIVE, RecoverFrom.BLANK])
def test_a_container_still_there_does_not_turn_a_recovery_into_another_error(source: RecoverFrom) -> None:
    world = settled(Desired.ARCHIVED, Desired.RUNNING)
    world.lose_volume()
    world.tick("dies before action")
    assert world.instance is not None
    world.ask_recover(source)
    world.settle()
    assert_at(world, Phase.RUNNING)


def test_a_volume_that_may_be_half_deleted_is_not_made_live_while_its_archive_is_intact() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    fail_until_error(world)
    home(world).content = None
    world.ask_recover(RecoverFrom.VOLUME)
    assert_in_error(world, ErrorReason.RETRY_EXCEEDED)
    world.ask_recover(RecoverFrom.AS_IS)
    world.settle()
    assert_at(world, Phase.ARCHIVED)
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("source", [RecoverFrom.ARCHIVE, RecoverFrom.BLANK])
def test_a_whole_volume_is_given_up_only_by_force(source: RecoverFrom) -> None:
    world = fails_to_start()
    whole = home(world)
    world.ask_recover(source)
    world.settle()
    assert_in_error(world, ErrorReason.RETRY_EXCEEDED)
    assert world.volume is whole
    world.ask_recover(source, forced=True)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert world.volume is not whole


@pytest.mark.parametrize("operation", [Operation.PROVISIONING, Operation.RESTORING, Operation.DELETING])
def test_no_operation_would_remove_a_volume_it_does_not_know(operation: Operation) -> None:
    """No tick gets there, an unknown volume being an ERROR first; the last line of defence holds by itself."""
    world = settled(Desired.ARCHIVED)
    world.volume = Volume(UNLABELLED, uid="by hand", content=1)
    row = b.with_status(world.row, operation=operation, home_ctx=HomeContext(incarnation=b.MADE))
    step = next_step(row, world.look(), b.NOW, b.NEXT_OP)
    assert not isinstance(step, Act)
