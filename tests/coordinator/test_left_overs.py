"""What belongs to no workspace is told by a process that does not lead: the leader notes it in the database."""

import asyncio
from uuid import uuid4

from codehub.config import Settings
from codehub.coordinator.left_overs import LeftOvers
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db.diagnosis import diagnose
from codehub.db.leadership import bump_epoch, note_unknown
from codehub.db.pool import Pool, Role, connection, open_pool
from codehub.drivers.base import Resources
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.things import Volume
from codehub.model.workspace import Incarnation, InstanceBackend, WorkspaceId
from tests.coordinator.installation import Installation
from tests.support import eventually_async


async def _told(pool: Pool) -> int | None:
    """As `codehub api` reads it."""
    async with connection(pool) as conn:
        return (await diagnose(conn, stuck_after_seconds=60)).unknown


async def test_the_leader_notes_what_belongs_to_no_workspace(
    database: str, server_redis: str, settings: Settings, pool: Pool
) -> None:
    assert await _told(pool) is None, "nobody has looked yet"
    world, nobodys = MemoryWorld(), WorkspaceId(uuid4())
    world.volumes[nobodys] = Volume(Incarnation("x"), "u")
    infrastructure = Infrastructure(world.archives, {InstanceBackend.PROCESS: world.backend()}, Resources())

    async def is_told() -> bool:
        told = await _told(pool)
        assert told != 0, "none is told before anybody has looked"
        return told == 1

    async def is_told_gone() -> bool:
        return await _told(pool) == 0

    async with open_coordinator(settings, infrastructure, database, server_redis) as coordinator:
        running = asyncio.create_task(coordinator.run())
        try:
            await eventually_async(is_told, "it is told")
            del world.volumes[nobodys]
            await eventually_async(is_told_gone, "that it is gone is told, too")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_it_is_noted_while_an_engine_is_out_once_each_was_looked_at(site: Installation) -> None:
    other = MemoryWorld()
    backends = {InstanceBackend.PROCESS: site.world.backend(), InstanceBackend.DOCKER: other.backend()}
    notes: list[int] = []

    async def note(count: int) -> None:
        notes.append(count)

    def left_over(world: MemoryWorld) -> None:
        world.volumes[WorkspaceId(uuid4())] = Volume(Incarnation("x"), "u")

    outage = other.engine_out()
    left_over(site.world)
    left_over(other)
    async with site.controller(backends=backends) as controller:
        left_overs = LeftOvers(controller, backends, note)
        await left_overs.tick()
        assert notes == [], "one engine was never looked at"
        other.engine_back(outage)
        await left_overs.tick()
        assert notes == [2]
        other.engine_out()
        left_over(site.world)
        await left_overs.tick()
        assert controller.outages
        assert notes == [2, 3], "with what there was at the engine that is out"


async def test_what_an_earlier_leader_noted_is_not_told(database: str, pool: Pool) -> None:
    """The new one may be of a version that notes nothing."""
    async with open_pool(database, Role.CONTROLLER, max_size=1) as controller:

        async def leads(holder: str) -> int:
            async with connection(controller) as conn:
                return await bump_epoch(conn, holder)

        async def notes(epoch: int, count: int) -> None:
            async with connection(controller) as conn:
                await note_unknown(conn, epoch, count)

        epoch = await leads("one")
        await notes(epoch, 3)
        assert await _told(pool) == 3
        await leads("another")
        assert await _told(pool) is None
        await notes(epoch, 4)
        assert await _told(pool) is None, "whoever has been replaced has no say"
