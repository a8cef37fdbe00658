"""What an instance wrote is there once it was removed; keeping it never keeps anything from being removed."""

import asyncio
import os
import signal
from contextlib import suppress
from uuid import uuid4

import pytest

from codehub.coordinator.last_logs import KeptLogs
from codehub.drivers.base import InstanceSpec, Resources
from codehub.drivers.process import Options
from codehub.errors import Unavailable
from codehub.model.observation import InstanceSeen, Life
from codehub.model.workspace import OpId, WorkspaceId
from codehub.signals.connect import Redis
from codehub.signals.last_logs import RedisLastLogs
from tests.drivers_process.world import World
from tests.support import eventually_async, short_folder


@pytest.fixture
async def world() -> World:
    return World(Options(root=short_folder() / "w"))


async def test_the_last_lines_are_kept(world: World, redis: Redis) -> None:
    last = RedisLastLogs(redis)
    instances = KeptLogs(world.driver.instances, last.keep)
    workspace = await world.start()
    log = world.root / f"instances/ws-{workspace.id}/log"
    with log.open("a") as file:
        file.write("x" * 100_000 + "\nwhy it ended\n")
    await instances.remove(workspace.id)
    kept = await last.read(workspace.id)
    assert kept.endswith("why it ended\n")
    assert len(kept) < 10_000
    assert await last.read(WorkspaceId(uuid4())) == ""
    await world.close()


async def test_the_lines_of_a_dead_one_are_kept_when_the_next_start_replaces_it(world: World, redis: Redis) -> None:
    last = RedisLastLogs(redis)
    instances = KeptLogs(world.driver.instances, last.keep)
    workspace = await world.start()
    log = world.root / f"instances/ws-{workspace.id}/log"
    spec = InstanceSpec(op_id=OpId(uuid4()), image_ref="test", volume=workspace.volume, resources=Resources())
    log.write_text("it lives\n")
    await instances.start(workspace.id, spec)
    assert await last.read(workspace.id) == "", "a living one is left alone"
    log.write_text("why it died\n")
    for pid in workspace.processes():
        with suppress(ProcessLookupError):  # ended with another of them
            os.kill(pid, signal.SIGKILL)

    async def is_dead() -> bool:
        return (await world.driver.instances.look(workspace.id)).life is Life.DEAD

    await eventually_async(is_dead, "it is dead")
    await instances.start(workspace.id, spec)
    assert await last.read(workspace.id) == "why it died\n"
    await world.close()


async def test_an_outage_or_a_hanging_store_of_lines_stops_no_removal(world: World) -> None:
    async def fails(_id: WorkspaceId, _text: str) -> None:
        raise Unavailable("Redis is away.")

    async def hangs(_id: WorkspaceId, _text: str) -> None:
        await asyncio.Event().wait()

    for keep in (fails, hangs):
        workspace = await world.start()
        (world.root / f"instances/ws-{workspace.id}/log").write_text("something\n")
        await KeptLogs(world.driver.instances, keep).remove(workspace.id)
        assert await world.driver.instances.look(workspace.id) == InstanceSeen(None)
    await world.close()


async def test_lines_that_the_disk_does_not_give_stop_no_removal(world: World, redis: Redis) -> None:
    last = RedisLastLogs(redis)
    workspace = await world.start()
    log = world.root / f"instances/ws-{workspace.id}/log"
    log.unlink()
    log.mkdir()
    await KeptLogs(world.driver.instances, last.keep).remove(workspace.id)
    assert await world.driver.instances.look(workspace.id) == InstanceSeen(None)
    await world.close()
