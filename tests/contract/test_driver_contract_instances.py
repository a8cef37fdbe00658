"""What every driver promises about instances: drivers.base.Instances."""

import asyncio
from contextlib import aclosing
from typing import Any, cast

import pytest

from codehub.errors import Refused, TerminalError
from codehub.model.observation import Life
from codehub.model.workspace import VolumeRef
from tests.contract.backends import Case, new_incarnation, new_op
from tests.contract.harness import Skill
from tests.support import eventually_async


async def answers(endpoint: str) -> bool:
    """Whether HTTP is spoken at `unix:PATH` or `HOST:PORT`."""
    kind, _, address = endpoint.rpartition(":")
    dial = asyncio.open_unix_connection(address) if kind == "unix" else asyncio.open_connection(kind, int(address))
    async with asyncio.timeout(10):
        reader, writer = await dial
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        first = await reader.readline()
        writer.close()
    return first.startswith(b"HTTP/1.")


async def test_there_is_no_instance_until_one_is_started(case: Case) -> None:
    assert not (await case.seen_instance()).exists
    assert case.id not in await case.backend.instances.observe()
    assert await case.backend.instances.logs(case.id, 10) == ""


async def test_a_started_instance_is_ready_and_labelled(case: Case) -> None:
    op_id = await case.start(await case.volume())
    for seen in (await case.seen_instance(), (await case.backend.instances.observe())[case.id]):
        assert seen.life is Life.READY
        assert seen.op_id == op_id
        assert seen.endpoint is not None
        assert case.harness.name == "memory" or await answers(seen.endpoint)


async def test_starting_twice_is_one_instance_and_the_first_stays(case: Case) -> None:
    volume = await case.volume()
    first = await case.start(volume)
    before = await case.seen_instance()
    await case.start(volume, first)
    await case.start(volume, new_op())
    assert await case.seen_instance() == before


async def test_many_starts_at_once_are_one_instance(case: Case) -> None:
    volume = await case.volume()
    op_id = new_op()
    await asyncio.gather(*(case.start(volume, op_id) for _ in range(4)), return_exceptions=True)
    await case.start(volume, op_id)
    assert (await case.seen_instance()).life is Life.READY
    await case.backend.instances.remove(case.id)
    assert not (await case.seen_instance()).exists


async def test_nothing_starts_without_its_volume_and_none_is_made_up(case: Case) -> None:
    with pytest.raises(Refused):
        await case.start(VolumeRef(new_incarnation(), "some-uid"))
    with pytest.raises(Refused):
        await case.start(VolumeRef(new_incarnation(), None))
    assert not (await case.seen_volume()).exists
    assert not (await case.seen_instance()).exists


async def test_nothing_starts_on_a_volume_that_was_lost(case: Case) -> None:
    volume = await case.volume()
    await case.harness.lose_volume(case.id)
    with pytest.raises(Refused):
        await case.start(volume)
    assert not (await case.seen_volume()).exists


async def test_nothing_starts_on_another_volume_than_the_one_named(case: Case) -> None:
    old, new = await case.replaced_volume()
    for stale in (old, VolumeRef(new.incarnation, old.uid), VolumeRef(old.incarnation, None)):
        with pytest.raises(Refused):
            await case.start(stale)
    assert not (await case.seen_instance()).exists
    await case.start(new)


async def test_a_dead_instance_is_seen_as_dead_and_made_again(case: Case) -> None:
    volume = await case.volume()
    await case.start(volume)
    await case.harness.write_home(case.id, {"kept": b"1"})
    await case.harness.kill_instance(case.id)

    async def is_dead() -> bool:
        seen = (await case.backend.instances.observe()).get(case.id)
        return seen is not None and seen.life is Life.DEAD

    await eventually_async(is_dead, "it is seen to be dead, and still there")
    assert (await case.seen_instance()).endpoint is None
    again = await case.start(volume)
    seen = await case.seen_instance()
    assert (seen.life, seen.op_id) == (Life.READY, again)
    assert (await case.harness.read_home(case.id))["kept"] == b"1"


async def test_removing_leaves_nothing_and_may_be_repeated(case: Case) -> None:
    volume = await case.volume()
    await case.start(volume)
    await case.harness.write_home(case.id, {"kept": b"1"})
    for _ in range(2):
        await case.backend.instances.remove(case.id)
        assert not (await case.seen_instance()).exists
        assert case.id not in await case.backend.instances.observe()
    assert (await case.seen_volume()).ref == volume
    assert (await case.harness.read_home(case.id))["kept"] == b"1"


@pytest.mark.needs(Skill.PROCESSES)
async def test_removing_kills_everything_it_started(case: Case) -> None:
    await case.start(await case.volume())
    assert await case.harness.instance_processes(case.id) > 0
    await case.backend.instances.remove(case.id)
    assert await case.harness.instance_processes(case.id) == 0


async def test_a_dead_instance_can_be_removed(case: Case) -> None:
    await case.start(await case.volume())
    await case.harness.kill_instance(case.id)
    await case.backend.instances.remove(case.id)
    assert not (await case.seen_instance()).exists


@pytest.mark.parametrize("which", ["missing", "forbidden"])
async def test_an_image_that_cannot_be_had_is_terminal(case: Case, which: str) -> None:
    volume = await case.volume()
    with pytest.raises(TerminalError) as caught:
        await case.start(volume, image=getattr(case.harness.images, which))
    assert caught.value.reason == "ImagePullFailed"
    seen = await case.seen_instance()
    assert seen.life in (None, Life.DEAD)
    assert (await case.seen_volume()).ref == volume
    await case.start(volume)


async def test_another_process_finds_and_removes_what_this_one_started(case: Case) -> None:
    volume = await case.volume()
    op_id = await case.start(volume)
    successor = case.harness.another()
    assert (await successor.instances.observe())[case.id] == await case.seen_instance()
    assert (await successor.instances.look(case.id)).op_id == op_id
    await successor.instances.remove(case.id)
    assert not (await case.seen_instance()).exists


async def test_one_listing_shows_every_instance(case: Case, other: Case) -> None:
    first = await case.start(await case.volume())
    second = await other.start(await other.volume())
    seen = await case.backend.instances.observe()
    assert (seen[case.id].op_id, seen[other.id].op_id) == (first, second)
    assert seen[case.id].endpoint != seen[other.id].endpoint
    await case.backend.instances.remove(case.id)
    assert (await other.seen_instance()).life is Life.READY


async def test_the_endpoint_of_one_that_ended_is_not_the_next_ones(case: Case, other: Case) -> None:
    volumes = {one.id: await one.volume() for one in (case, other)}
    endpoints = []
    for one in (case, other, case):
        await one.start(volumes[one.id])
        endpoints.append((await one.seen_instance()).endpoint)
        await one.backend.instances.remove(one.id)
    assert len(set(endpoints)) == 3


async def test_logs_show_what_it_wrote(case: Case) -> None:
    await case.start(await case.volume())

    async def has_written() -> bool:
        return bool((await case.backend.instances.logs(case.id, 100)).strip())

    await eventually_async(has_written, "it has logged something")
    assert len((await case.backend.instances.logs(case.id, 1)).splitlines()) == 1


@pytest.mark.needs(Skill.EVENTS)
async def test_a_change_is_told(case: Case) -> None:
    volume = await case.volume()
    async with aclosing(cast("Any", case.backend.instances.events())) as events:
        told: asyncio.Future[None] = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # it has begun to listen

        async def start_until_told() -> bool:
            # A stream that is just being opened may miss the first change: it is a hint.
            await case.start(volume)
            await case.backend.instances.remove(case.id)
            return told.done()

        await eventually_async(start_until_told, "the stream yields", seconds=60)
        await told


async def test_only_what_runs_uses_anything(case: Case) -> None:
    """Also where nothing is measured."""
    assert case.id not in await case.backend.instances.usage()
    await case.start(await case.volume())
    await case.backend.instances.usage()
    await case.backend.instances.remove(case.id)
    assert case.id not in await case.backend.instances.usage()


@pytest.mark.needs(Skill.USAGE)
async def test_what_a_running_instance_uses_is_measured(case: Case) -> None:
    await case.start(await case.volume())
    first = (await case.backend.instances.usage())[case.id]
    second = (await case.backend.instances.usage())[case.id]
    assert first.memory_bytes is not None
    assert 100_000 < first.memory_bytes < 512 << 20, "less than it may use"
    assert first.cpu_seconds is not None
    assert second.cpu_seconds is not None
    assert 0 <= first.cpu_seconds <= second.cpu_seconds, "it grows"
