"""An engine that cannot be reached: every verb says so, no listing is empty, and nothing is lost by it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from codehub.drivers.base import InstanceSpec
from codehub.errors import Unreachable
from codehub.model.observation import Life
from codehub.model.workspace import VolumeRef
from tests.contract.backends import HOME, Case, failure, new_incarnation, new_op
from tests.contract.harness import Skill
from tests.contract.stores import new_key
from tests.support import eventually_async

pytestmark = pytest.mark.needs(Skill.OUTAGE)


@pytest.fixture
async def out(case: Case) -> AsyncIterator[Case]:
    """A running workspace whose engine is out of reach during the test."""
    volume = await case.volume()
    await case.start(volume)
    await case.harness.write_home(case.id, HOME)
    await case.harness.break_engine()
    try:
        yield case
    finally:
        await case.harness.mend_engine()

        async def is_back() -> bool:
            return await failure(case.backend.instances.observe()) is None

        await eventually_async(is_back, "the engine answers again")
    seen = await case.seen_instance()
    assert seen.life is Life.READY
    home = await case.harness.read_home(case.id)
    assert {path: home.get(path) for path in HOME} == dict(HOME)


@pytest.mark.needs(Skill.EVENTS)
async def test_the_stream_of_events_outlives_an_outage(case: Case) -> None:
    told = 0

    async def listen() -> None:
        nonlocal told
        async for _ in case.backend.instances.events():
            told += 1

    listening = asyncio.ensure_future(listen())
    try:
        volume = await case.volume()

        async def change() -> bool:
            await case.start(volume)
            await case.backend.instances.remove(case.id)
            return told > 0

        await eventually_async(change, "a change is told")
        for _ in range(2):
            await case.harness.break_engine()
            try:
                for _ in range(5):  # its first tries to connect again fail
                    assert isinstance(await failure(case.backend.instances.observe()), Unreachable)
                    await asyncio.sleep(0.1)  # the pauses between its tries
                before = told
            finally:
                await case.harness.mend_engine()

            async def is_told(before: int = before) -> bool:
                return told > before

            await eventually_async(is_told, "that the engine is back is told")
        assert not listening.done()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.parametrize("which", ["this", "another"])
async def test_every_verb_is_unreachable(out: Case, which: str) -> None:
    backend = out.backend if which == "this" else out.harness.another()
    incarnation, op_id = new_incarnation(), new_op()
    ref = VolumeRef(incarnation, "uid")  # of no consequence: nothing can be looked up
    spec = InstanceSpec(op_id=op_id, image_ref=out.harness.images.quick, volume=ref)
    calls = {
        "instances.observe": backend.instances.observe(),
        "instances.look": backend.instances.look(out.id),
        "instances.start": backend.instances.start(out.id, spec),
        "instances.remove": backend.instances.remove(out.id),
        "instances.logs": backend.instances.logs(out.id, 1),
        "volumes.observe": backend.volumes.observe(),
        "volumes.look": backend.volumes.look(out.id),
        "volumes.create": backend.volumes.create(out.id, incarnation),
        "volumes.mark_whole": backend.volumes.mark_whole(out.id, ref),
        "volumes.delete": backend.volumes.delete(out.id, ref),
        "jobs.observe": backend.jobs.observe(),
        "jobs.archive": backend.jobs.archive(out.id, op_id, ref),
        "jobs.restore": backend.jobs.restore(out.id, op_id, new_key(), ref),
        "jobs.remove": backend.jobs.remove(out.id, op_id),
    }
    failures = {name: type(await failure(call)) for name, call in calls.items()}
    assert {name for name, kind in failures.items() if not issubclass(kind, Unreachable)} == set()
