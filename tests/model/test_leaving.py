"""A home that cannot be archived stays usable: ARCHIVING is left before its commit, never after it (ADR 17)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from codehub.model import actions as a
from codehub.model import conditions as c
from codehub.model.failure import LONGEST_PUT_OFF, Fault, after_failure, is_put_off
from codehub.model.invariants import violations
from codehub.model.leaving import abandoned, pause_after
from codehub.model.observation import ArchiveSeen, JobState, VolumeSeen
from codehub.model.tick import Decision
from codehub.model.visiting import Step, step_of
from codehub.model.wishes import NEEDS_CONFIRMATION, Refusal, delete, request_state, undelete
from codehub.model.workspace import Desired, ErrorReason, Operation, Phase, RecoverFrom, VolumeState, Wish
from tests.model import builders as b
from tests.model.ticking import RULES, A, E, Op, P, during, job, tick
from tests.model.traces import (
    assert_at,
    assert_nothing_was_lost,
    go,
    home,
    settled,
    time_passes,
    until,
    until_about_to,
    until_at,
    until_error,
)
from tests.model.world import RETENTION, World

WANTED_AGAIN = [Desired.RUNNING, Desired.STANDBY]


def archiving(jobs: bool = True) -> World:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.StartArchiveJob)
    if jobs:
        world.tick()
    return world


def unarchivable(*, deleted: bool = False) -> World:
    """A file cannot be read; the archive was tried as often as it is at first."""
    world = settled(Desired.STANDBY)
    world.unreadable = True
    if deleted:
        world.ask_delete()
    else:
        world.ask(Desired.ARCHIVED)
    until(world, lambda: is_put_off(world.row.status))
    return world


def test_a_home_whose_archive_jobs_vanish_once_they_have_ended_is_put_off() -> None:
    """A garbage collector of Pods, somebody's `container prune`."""
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    for _ in range(40):
        world.tick()
        world.run_jobs()
        world.jobs.clear()
        world.check()
    status = world.row.status
    assert is_put_off(status)
    assert "was gone before its archive was verified" in status.conditions.healthy.message
    assert len(world.archives) == world.rules.max_retry


# -- its archive is there and cannot be read back ---------------------------------------------------------------------


@pytest.mark.parametrize("silent", [A.UNREACHABLE, A.TIMEOUT])
def test_an_archive_that_alone_cannot_be_read_back_is_put_off_in_time(silent: ArchiveSeen) -> None:
    row, seen = during(Op.ARCHIVING, desired_state=Desired.ARCHIVED)
    seen = replace(seen, jobs=job(JobState.SUCCEEDED), op_archive=silent)
    soon, late = 540.0, 660.0
    assert tick(row, seen, soon).status.operation is Op.ARCHIVING
    assert tick(row, replace(seen, store_out=True), late).action is None, "an outage has no limit"
    assert tick(row, replace(seen, deadline_from=b.later(late)), late).action is None, "nor has what gets further"
    assert tick(row, seen, late).action == a.RemoveJob(b.OP)
    left = tick(row, replace(seen, jobs=()), late).status
    assert (left.phase, left.operation, left.home_ctx.volume) == (P.STANDBY, Op.NONE, VolumeState.LIVE)
    assert is_put_off(left)


def condemned() -> World:
    """Its archive was committed; then a new leader, and of all archives this one cannot be read."""
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until(world, lambda: world.row.status.home_ctx.volume is VolumeState.CONDEMNED)
    assert world.row.status.archive_key is not None
    world.silent.add(world.row.status.archive_key)
    world.deadline_from = world.now
    return world


def test_a_condemned_home_whose_archive_alone_cannot_be_read_is_not_stuck() -> None:
    world = condemned()
    time_passes(world)
    until_error(world, ErrorReason.TIMEOUT)
    assert isinstance(delete(world.row, world.now), Refusal), "its home is there, and nothing else can be read"
    world.ask_recover(RecoverFrom.VOLUME)
    go(world, Desired.RUNNING)
    assert world.volume is not None
    assert world.volume.content == world.newest
    world.write()
    world.silent.clear()
    go(world, Desired.ARCHIVED)
    go(world, Desired.RUNNING)
    assert_nothing_was_lost(world)


def test_it_waits_for_a_store_that_is_out_and_for_an_archive_that_is_back() -> None:
    world = condemned()
    world.out.add("store")
    time_passes(world)
    world.tick()
    assert world.row.status.operation is Op.ARCHIVING
    world.out.clear()
    world.silent.clear()
    time_passes(world)  # an outage's pause
    world.deadline_from = world.now
    until_at(world, P.ARCHIVED)
    assert world.volume is None


def test_a_volume_whose_removal_was_asked_for_is_not_taken_back() -> None:
    """The call may land at any time, as one of a leader that hung."""
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    world.tick("action hangs")
    assert world.row.status.archive_key is not None
    assert world.row.status.home_ctx.removal_asked
    world.silent.add(world.row.status.archive_key)
    time_passes(world)
    until_error(world, ErrorReason.TIMEOUT)
    world.ask_recover(RecoverFrom.VOLUME)
    assert world.row.status.phase is P.ERROR
    world.silent.clear()
    world.ask_recover(RecoverFrom.AS_IS)
    until_at(world, P.ARCHIVED)
    go(world, Desired.RUNNING)
    assert_nothing_was_lost(world)


# -- somebody wants it again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("desired", WANTED_AGAIN)
@pytest.mark.parametrize("state", [None, *JobState])
def test_archiving_is_abandoned_once_its_job_is_gone(desired: Desired, state: JobState | None) -> None:
    row, seen = during(Op.ARCHIVING, desired_state=desired)
    if state is not None:
        held = tick(row, replace(seen, jobs=job(state), op_archive=A.VERIFIED))
        assert (held.action, held.status.operation) == (a.RemoveJob(b.OP), Op.ARCHIVING)
    unseen = tick(row, replace(seen, jobs=None))
    assert (unseen.action, unseen.status.operation) == (None, Op.ARCHIVING)
    left = tick(row, replace(seen, op_archive=A.VERIFIED))
    assert (left.status.phase, left.status.operation, left.status.op_id) == (P.STANDBY, Op.NONE, b.OP)
    assert left.status.home_ctx == row.status.home_ctx
    assert left.status.archive_key == row.status.archive_key


@pytest.mark.parametrize("desired", WANTED_AGAIN)
def test_who_starts_a_workspace_that_is_being_archived_gets_it(desired: Desired) -> None:
    world = archiving()
    world.ask(desired)
    world.settle()
    assert_at(world, Phase(desired.value))
    assert not world.archives
    assert_nothing_was_lost(world)


def test_it_is_abandoned_during_the_pause_of_an_outage_too() -> None:
    world = archiving()
    world._failed(ErrorReason.UNREACHABLE)
    world.now += timedelta(minutes=20)
    world._failed(ErrorReason.UNREACHABLE)
    world.ask(Desired.RUNNING)
    until(world, lambda: world.row.status.operation is Operation.STARTING)


def test_what_is_committed_is_finished_and_then_restored() -> None:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    until_about_to(world, a.DeleteVolume)
    assert world.row.status.home_ctx.volume is VolumeState.CONDEMNED
    world.ask(Desired.RUNNING)
    world.tick()
    assert world.row.status.operation is Operation.ARCHIVING, "there is no way back"
    assert world.volume is None
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("desired", [Desired.RUNNING, Desired.ARCHIVED, Desired.DELETED])
def test_a_volume_that_its_driver_kept_is_the_home_again(desired: Desired) -> None:
    """After the commit: somebody else has it open, or it changed since it was archived."""
    row, seen = during(Op.ARCHIVING, desired_state=Desired.ARCHIVED)
    committed = tick(row, replace(seen, jobs=job(JobState.SUCCEEDED), op_archive=A.VERIFIED)).status
    row = replace(row, status=committed, wish=replace(row.wish, desired_state=desired))
    assert seen.volume is not None
    kept = replace(seen, archive=A.VERIFIED, volume=replace(seen.volume, kept="sh (1) has it open."))
    held = tick(row, replace(kept, jobs=job(JobState.SUCCEEDED)))
    assert held.action == a.RemoveJob(b.OP)
    back = tick(row, kept)
    assert (back.status.phase, back.status.operation, back.action) == (P.STANDBY, Op.NONE, None)
    assert back.status.home_ctx.volume is VolumeState.LIVE
    assert (back.status.archive_key, back.status.op_id) == (committed.archive_key, b.OP)
    assert "Sh (1) has it open." in back.status.conditions.healthy.message
    assert is_put_off(back.status) == (desired is not Desired.RUNNING) or back.status.retry_at is not None


@pytest.mark.parametrize(
    "volume",
    [
        VolumeSeen(True, b.MADE, kept="sh (1) has it open."),
        VolumeSeen(True, b.MADE, uid="another", whole=True, kept="sh (1) has it open."),
        b.LIVE_VOLUME,
    ],
    ids=["its removal has begun", "another", "not kept"],
)
def test_but_no_other_is(volume: VolumeSeen) -> None:
    row, seen = during(Op.ARCHIVING, desired_state=Desired.ARCHIVED)
    committed = tick(row, replace(seen, jobs=job(JobState.SUCCEEDED), op_archive=A.VERIFIED)).status
    committed = replace(committed, home_ctx=replace(committed.home_ctx, uid=""))
    found = tick(replace(row, status=committed), replace(seen, archive=A.VERIFIED, volume=volume))
    assert (found.status.operation, found.status.home_ctx.volume) == (Op.ARCHIVING, VolumeState.CONDEMNED)


def test_a_home_that_vanished_under_its_complete_archive_is_committed_and_not_abandoned() -> None:
    world = archiving()
    world.run_jobs()
    world.jobs.clear()
    world.volume = None
    world.ask(Desired.RUNNING)
    world.settle()
    assert_at(world, Phase.RUNNING)
    assert_nothing_was_lost(world)


@pytest.mark.parametrize("volume", [None, VolumeSeen(exists=False)], ids=["not looked at", "not listed"])
def test_a_failed_archive_is_put_off_once_its_home_is_seen(volume: VolumeSeen | None) -> None:
    """Its last attempt fails while the engine is out, or a listing lacks the home: that is no ERROR."""
    row, seen = during(Op.ARCHIVING, error_count=RULES.max_retry, error_reason=E.ACTION_FAILED)
    hidden = tick(row, replace(seen, volume=volume)).status
    assert (hidden.phase, hidden.operation) == (P.STANDBY, Op.ARCHIVING)
    put_off = tick(row, seen).status
    assert (put_off.phase, put_off.operation) == (P.STANDBY, Op.NONE)


def test_what_was_begun_late_under_an_abandoned_archiving_changes_nothing() -> None:
    world = archiving(jobs=False)
    world.tick("action hangs")
    world.ask(Desired.RUNNING)
    until_at(world, Phase.RUNNING)
    world.land_late()
    world.write()
    world.run_jobs()
    world.settle()
    assert_at(world, Phase.RUNNING)
    go(world, Desired.ARCHIVED)
    assert_nothing_was_lost(world)


def test_nobody_leaves_another_operation_nor_a_commit_nor_a_job() -> None:
    """The rule, stated apart: what the invariants say of bugs planted in it."""
    row, seen = during(Op.ARCHIVING, desired_state=Desired.RUNNING)
    left = tick(row, seen).status
    assert violations(row, seen, Decision(left, None, "")) == []
    beside_a_job = replace(seen, jobs=job())
    assert violations(row, beside_a_job, Decision(left, None, "")) != []
    gone = replace(seen, volume=b.NO_VOLUME)
    assert violations(row, gone, Decision(left, None, "")) != []
    condemned = replace(row.status.home_ctx, volume=VolumeState.CONDEMNED)
    committed = b.with_status(row, home_ctx=condemned)
    assert violations(committed, seen, Decision(replace(left, home_ctx=condemned), None, "")) != []
    shut = replace(left, phase=P.ERROR, error_reason=E.RETRY_EXCEEDED)
    assert "a whole home was shut because it could not be archived" in violations(row, seen, Decision(shut, None, ""))
    for operation in (Op.RESTORING, Op.PROVISIONING, Op.STARTING, Op.STOPPING):
        row, seen = during(operation)
        assert violations(row, seen, Decision(abandoned(row.status), None, "")) != [], operation


@pytest.mark.parametrize("volume", [VolumeState.LIVE, VolumeState.CONDEMNED])
@pytest.mark.parametrize("desired", [Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED])
def test_an_archiving_refuses_nobody(volume: VolumeState, desired: Desired) -> None:
    row, _ = during(Op.ARCHIVING)
    row = b.with_status(row, home_ctx=replace(row.status.home_ctx, volume=volume))
    answer = request_state(row, desired, b.NOW)
    assert isinstance(answer, Wish)
    assert answer.desired_state is desired


def test_a_visit_wakes_what_is_being_archived_until_it_is_committed() -> None:
    row, _ = during(Op.ARCHIVING)
    assert step_of(row) is Step.WAKE
    assert step_of(replace(row, wish=replace(row.wish, desired_state=Desired.RUNNING))) is Step.WAIT
    condemned = replace(row.status.home_ctx, volume=VolumeState.CONDEMNED)
    assert step_of(b.with_status(row, phase=P.ARCHIVED, home_ctx=condemned)) is Step.WAIT


def test_a_deletion_is_taken_back_while_the_home_is_archived_for_it() -> None:
    row, _ = during(Op.ARCHIVING, desired_state=Desired.DELETED)
    answer = undelete(row, b.NOW, RETENTION)
    assert isinstance(answer, Wish)
    assert answer.desired_state is Desired.ARCHIVED


# -- it cannot be archived ------------------------------------------------------------------------------------------


def test_a_home_that_cannot_be_archived_stays_in_standby_with_a_warning() -> None:
    world = unarchivable()
    assert_at(world, Phase.STANDBY)
    status = world.row.status
    healthy = status.conditions.healthy
    assert (healthy.status, healthy.reason) == (True, c.ARCHIVE_FAILED)
    assert "could not be archived: It failed." in healthy.message
    assert "can be started" in healthy.message
    assert not world.jobs
    assert status.error_count == 3
    assert home(world).content == world.newest


@pytest.mark.parametrize("desired", WANTED_AGAIN)
def test_it_can_be_started_at_once(desired: Desired) -> None:
    world = unarchivable()
    world.ask(desired)
    world.tick()
    until_at(world, Phase(desired.value))
    status = world.row.status
    assert (status.error_reason, status.error_count, status.retry_at) == (None, 0, None)
    assert status.conditions.healthy.reason == c.ALL_CONDITIONS_MET


def test_a_visit_starts_it() -> None:
    assert step_of(unarchivable().row) is Step.WAKE


def test_it_is_tried_again_with_growing_pauses_for_as_long_as_it_takes() -> None:
    world = unarchivable()
    pauses = []
    for _ in range(12):
        retry_at = world.row.status.retry_at
        assert retry_at is not None
        pauses.append(retry_at - world.now)
        world.now = retry_at
        until(world, lambda: world.row.status.operation is Operation.ARCHIVING)
        until(world, lambda: is_put_off(world.row.status))
        assert_at(world, Phase.STANDBY)
    assert pauses == sorted(pauses)
    assert pauses[0] >= timedelta(minutes=1)
    assert pauses[-1] == LONGEST_PUT_OFF
    world.settle()  # the file can be read again
    assert_at(world, Phase.ARCHIVED)
    assert world.row.status.error_count == 0
    assert_nothing_was_lost(world)


def test_the_pause_is_between_a_minute_and_six_hours() -> None:
    minutes = [pause_after(attempts).total_seconds() / 60 for attempts in range(12)]
    assert minutes == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]
    assert pause_after(10**9) == LONGEST_PUT_OFF


def test_an_archive_that_makes_no_progress_is_put_off_too() -> None:
    row, seen = during(Op.ARCHIVING)
    late = tick(row, seen, 601).status
    assert is_put_off(late)
    assert late.retry_at == b.later(601 + 60)
    assert "no progress" in late.conditions.healthy.message


def test_a_start_that_fails_afterwards_has_all_its_attempts() -> None:
    world = unarchivable()
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    world.tick("action fails")
    world.tick()
    assert world.row.status.error_count == 1
    assert world.row.status.phase is Phase.STANDBY


def test_a_deletion_that_cannot_archive_waits_and_says_so_and_can_be_confirmed_or_taken_back() -> None:
    world = unarchivable(deleted=True)
    assert "delete again and confirm" in world.row.status.conditions.healthy.message
    refused = delete(world.row, world.now)
    assert isinstance(refused, Refusal)
    assert refused.code == NEEDS_CONFIRMATION
    assert "would be lost" in refused.message
    assert isinstance(undelete(world.row, world.now, RETENTION), Wish)
    for how in ({"confirmed": True}, {"purge": True}):
        assert delete(world.row, world.now, **how).deleted_at == world.now  # type: ignore[union-attr]
    world.ask_delete()
    world.settle()
    assert world.volume is None


def test_whoever_deletes_a_home_that_could_not_be_archived_is_told_first() -> None:
    world = unarchivable()
    refused = delete(world.row, world.now)
    assert isinstance(refused, Refusal)
    assert refused.code == NEEDS_CONFIRMATION


def test_a_home_that_is_lost_while_it_is_put_off_is_an_error() -> None:
    world = unarchivable()
    world.lose_volume()
    world.settle()
    assert world.row.status.error_reason is ErrorReason.DATA_LOST


# -- an outage is never counted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [o for o in Operation if o is not Operation.NONE])
def test_no_outage_of_any_length_is_counted_or_ends_in_error(operation: Operation) -> None:
    row, seen = during(operation)
    seconds, pauses = 0.0, []
    for _ in range(60):
        row = replace(row, status=after_failure(row, Fault(E.UNREACHABLE, "No answer."), b.later(seconds)))
        assert row.status.retry_at is not None
        pause = (row.status.retry_at - b.later(seconds)).total_seconds()
        pauses.append(pause)
        seconds += pause + 1
        row = replace(row, status=tick(row, seen, seconds).status)
        assert (row.status.operation, row.status.error_count) == (operation, 0)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 300


@pytest.mark.parametrize("reason", [None, E.TIMEOUT])
def test_the_pauses_of_tidying_up_grow_during_an_outage_too(reason: ErrorReason | None) -> None:
    row = b.workspace(now=b.status(phase=P.ERROR if reason else P.STANDBY, error_reason=reason))
    failed = after_failure(row, Fault(E.UNREACHABLE, "No answer."), b.later(3600))
    assert failed.retry_at == b.later(3600 + 300)
    assert (failed.error_reason, failed.error_count) == (reason, 0)
