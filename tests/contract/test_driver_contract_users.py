"""One user of a volume at a time: an instance or one job, whoever asks and however many ask at once."""

import asyncio

import pytest

from codehub.errors import Refused
from codehub.model.observation import JobState, Life
from tests.contract.backends import HOME, Case, failure, new_op
from tests.contract.harness import Skill
from tests.contract.stores import new_key

pytestmark = pytest.mark.needs(Skill.LONG_JOBS)


async def test_a_second_job_is_refused_while_one_runs(case: Case) -> None:
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    await case.harness.make_jobs_long(case.id)
    first = new_op()
    await case.backend.jobs.archive(case.id, first, volume)
    for backend in (case.backend, case.harness.another()):
        with pytest.raises(Refused):
            await backend.jobs.archive(case.id, new_op(), volume)
        with pytest.raises(Refused):
            await backend.jobs.restore(case.id, new_op(), new_key(), volume)
        await backend.jobs.archive(case.id, first, volume)  # the same one: nothing to do
    assert [(job.op_id, job.state) for job in await case.jobs()] == [(first, JobState.RUNNING)]
    assert await case.harness.read_home(case.id) == HOME


async def test_an_ended_job_that_was_removed_makes_room(case: Case) -> None:
    volume = await case.volume()
    for _ in range(2):
        await case.archived(volume)


async def test_an_instance_is_refused_while_a_job_runs(case: Case) -> None:
    volume = await case.volume()
    await case.harness.make_jobs_long(case.id)
    op_id = new_op()
    await case.backend.jobs.archive(case.id, op_id, volume)
    with pytest.raises(Refused):
        await case.start(volume)
    assert not (await case.seen_instance()).exists
    await case.backend.jobs.remove(case.id, op_id)
    await case.start(volume)


async def test_a_job_is_refused_while_there_is_an_instance(case: Case) -> None:
    volume = await case.volume()
    await case.start(volume)
    for life in (Life.READY, Life.DEAD):
        if life is Life.DEAD:
            await case.harness.kill_instance(case.id)
        assert (await case.seen_instance()).life is life
        with pytest.raises(Refused):
            await case.backend.jobs.archive(case.id, new_op(), volume)
        with pytest.raises(Refused):
            await case.backend.jobs.restore(case.id, new_op(), new_key(), volume)
    assert await case.jobs() in ((), [])
    await case.backend.instances.remove(case.id)
    await case.archived(volume)


async def test_of_many_at_once_at_most_one_gets_the_volume(case: Case) -> None:
    volume = await case.volume()
    await case.harness.make_jobs_long(case.id)
    other = case.harness.another()
    await asyncio.gather(
        *(failure(backend.jobs.archive(case.id, new_op(), volume)) for backend in (case.backend, other) * 2),
        failure(case.start(volume)),
    )
    running = [job for job in await case.jobs() if job.state is JobState.RUNNING]
    assert len(running) + (await case.seen_instance()).exists <= 1
