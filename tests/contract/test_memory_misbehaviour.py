"""The fake's misbehaviours: each does what its name says, to whom it was told, as often as it was told."""

import asyncio
from datetime import UTC, datetime

import pytest

from codehub.drivers.memory import MemoryWorld, Misbehaviour
from codehub.errors import ActionFailed, Refused, TerminalError, Unreachable
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen, JobState, Life
from codehub.model.workspace import ErrorReason
from tests.contract.backends import HOME, Case, failure, new_incarnation, new_op
from tests.contract.harness_memory import MemoryHarness
from tests.contract.stores import listed

NOW = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld(clock=lambda: NOW, auto_jobs=False)


@pytest.fixture
def mine(world: MemoryWorld) -> Case:
    return Case(MemoryHarness(world))


async def test_slow_waits_until_released(world: MemoryWorld, mine: Case) -> None:
    fault = world.misbehave("volumes.create", Misbehaviour.SLOW)
    creating = asyncio.create_task(mine.backend.volumes.create(mine.id, new_incarnation()))
    done, _ = await asyncio.wait([creating], timeout=0.05)
    assert not done
    assert not world.volumes
    fault.release()
    await creating
    assert mine.id in world.volumes


async def test_flaky_fails_as_often_as_told(world: MemoryWorld, mine: Case) -> None:
    world.misbehave("volumes.create", Misbehaviour.FLAKY, times=2)
    for _ in range(2):
        with pytest.raises(ActionFailed):
            await mine.volume()
        assert not world.volumes
    await mine.volume()


async def test_a_lie_returns_and_did_nothing(world: MemoryWorld, mine: Case) -> None:
    fault = world.misbehave("volumes.*", Misbehaviour.LIES)
    await mine.backend.volumes.create(mine.id, new_incarnation())
    assert not world.volumes
    fault.end()
    volume = await mine.volume()
    world.misbehave("volumes.delete", Misbehaviour.LIES)
    await mine.backend.volumes.delete(mine.id, volume)
    assert mine.id in world.volumes


async def test_what_lands_late_meets_what_is_there_then(world: MemoryWorld, mine: Case) -> None:
    old = await mine.volume()
    world.misbehave("volumes.delete", Misbehaviour.LANDS_LATE, times=1)
    with pytest.raises(ActionFailed):
        await mine.backend.volumes.delete(mine.id, old)
    assert (await mine.seen_volume()).ref == old
    world.lose_volume(mine.id)
    new = await mine.volume()
    assert world.land() == 1
    assert (await mine.seen_volume()).ref == new
    assert world.land() == 0


async def test_a_start_that_lands_late_starts_late(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    world.misbehave("instances.start", Misbehaviour.LANDS_LATE, times=1)
    with pytest.raises(ActionFailed):
        await mine.start(volume)
    assert not (await mine.seen_instance()).exists
    world.land()
    assert (await mine.seen_instance()).life is Life.READY


async def test_landing_but_failing_did_it(world: MemoryWorld, mine: Case) -> None:
    world.misbehave("volumes.create", Misbehaviour.LANDS_BUT_FAILS)
    with pytest.raises(ActionFailed):
        await mine.backend.volumes.create(mine.id, new_incarnation())
    assert mine.id in world.volumes


async def test_an_outage_of_the_engine_is_not_one_of_the_store(world: MemoryWorld, mine: Case) -> None:
    world.engine_out()
    for call in (mine.seen_volume(), mine.seen_instance(), mine.backend.jobs.observe()):
        assert isinstance(await failure(call), Unreachable)
    assert await listed(world.archives) == {}
    world.behave()
    await mine.volume()


async def test_an_outage_of_the_store_fails_jobs_as_an_outage(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
    op_id = new_op()
    await mine.backend.jobs.archive(mine.id, op_id, volume)
    world.run_jobs()
    job = await mine.job(op_id)
    assert job is not None
    assert (job.state, job.error) == (JobState.FAILED, ErrorReason.UNREACHABLE)


async def test_a_full_store_takes_nothing_and_gives_what_it_has(world: MemoryWorld, mine: Case) -> None:
    before = archive_key(mine.id, new_op())
    await world.archives.make_empty(before)
    full = world.misbehave("archives.*", Misbehaviour.FULL)
    with pytest.raises(Unreachable):
        await world.archives.make_empty(archive_key(mine.id, new_op()))
    op_id = new_op()
    await mine.backend.jobs.archive(mine.id, op_id, await mine.volume())
    for _ in range(2):
        world.run_jobs()
    assert (world.jobs[op_id].state, world.jobs[op_id].error) == (JobState.FAILED, ErrorReason.UNREACHABLE)
    assert await world.archives.look(before) is ArchiveSeen.LISTED
    await world.archives.delete(before)
    full.end()
    await world.archives.make_empty(before)


async def test_an_evicted_instance_is_dead_and_blameless(world: MemoryWorld, mine: Case) -> None:
    await mine.start(await mine.volume())
    world.evict_instance(mine.id)
    seen = await mine.seen_instance()
    assert (seen.life, seen.blameless, seen.endpoint) == (Life.DEAD, True, None)


async def test_an_image_may_be_missing(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    world.misbehave("instances.start", Misbehaviour.IMAGE_MISSING, times=1)
    with pytest.raises(TerminalError) as caught:
        await mine.start(volume)
    assert caught.value.reason == "ImagePullFailed"
    await mine.start(volume)


async def test_an_instance_may_never_be_ready(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    world.misbehave("instances.start", Misbehaviour.NEVER_READY, times=1)
    for _ in range(2):  # the living one is left alone
        with pytest.raises(ActionFailed):
            await mine.start(volume)
        assert (await mine.seen_instance()).life is Life.ALIVE
    await mine.backend.instances.remove(mine.id)
    await mine.start(volume)


async def test_an_instance_may_die_at_once(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    world.misbehave("instances.start", Misbehaviour.DIES, times=1)
    await mine.start(volume)
    assert (await mine.seen_instance()).life is Life.DEAD
    await mine.start(volume)
    assert (await mine.seen_instance()).life is Life.READY


async def test_a_listing_may_be_incomplete_while_a_look_is_not(world: MemoryWorld, mine: Case) -> None:
    other = Case(mine.harness)
    volume = await mine.volume()
    await other.volume()
    world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE, workspace_id=mine.id)
    assert set(await mine.backend.volumes.observe()) == {other.id}
    assert (await mine.seen_volume()).ref == volume
    world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE)
    assert await mine.backend.volumes.observe() == {}


async def test_a_volume_may_be_lost_under_everything(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    await mine.start(volume)
    world.lose_volume(mine.id)
    assert not (await mine.seen_volume()).exists
    assert (await mine.seen_instance()).life is Life.READY


async def test_a_restore_may_stop_half_way(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    key = archive_key(mine.id, new_op())
    world.put_archive(key, HOME)
    world.misbehave("jobs.restore", Misbehaviour.HALF, times=1)
    op_id = new_op()
    await mine.backend.jobs.restore(mine.id, op_id, key, volume)
    world.run_jobs()
    world.run_jobs()
    job = await mine.job(op_id)
    assert job is not None
    assert job.state is JobState.FAILED
    assert not world.volumes[mine.id].whole
    assert 0 < len(world.home(mine.id)) < len(HOME)
    await mine.backend.jobs.remove(mine.id, op_id)
    await mine.backend.jobs.restore(mine.id, op_id, key, volume)
    world.run_jobs()
    world.run_jobs()
    assert world.volumes[mine.id].whole
    assert world.home(mine.id) == HOME


async def test_a_killed_archive_job_leaves_half_an_archive(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    op_id = new_op()
    key = archive_key(mine.id, op_id)
    await mine.backend.jobs.archive(mine.id, op_id, volume)
    world.run_jobs()
    await mine.backend.jobs.remove(mine.id, op_id)
    assert await world.archives.look(key) is ArchiveSeen.MISSING
    assert not (await listed(world.archives))[key].complete


async def test_an_archive_may_be_damaged_by_a_job_that_succeeds(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    world.misbehave("jobs.archive", Misbehaviour.DAMAGES, times=1)
    op_id = new_op()
    await mine.backend.jobs.archive(mine.id, op_id, volume)
    world.run_jobs()
    world.run_jobs()
    job = await mine.job(op_id)
    assert job is not None
    assert job.state is JobState.SUCCEEDED
    assert await world.archives.look(archive_key(mine.id, op_id)) is ArchiveSeen.LISTED
    assert await world.archives.verify(archive_key(mine.id, op_id)) is ArchiveSeen.CORRUPTED


async def test_one_job_at_a_time_has_a_volume(world: MemoryWorld, mine: Case) -> None:
    volume = await mine.volume()
    await mine.backend.jobs.archive(mine.id, new_op(), volume)
    with pytest.raises(Refused):
        await mine.backend.jobs.archive(mine.id, new_op(), volume)


async def test_two_runs_are_the_same() -> None:
    async def run() -> list[object]:
        world = MemoryWorld(clock=lambda: NOW)
        case = Case(MemoryHarness(world))
        volume = await case.volume()
        await case.start(volume)
        return [volume.uid, (await case.seen_instance()).endpoint]

    assert await run() == await run()
