"""A real coordinator tends accounts: what a disabled user has running steps down, sessions that ended are forgotten."""

import asyncio
from datetime import timedelta

import psycopg

from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db.pool import Pool, connection
from codehub.drivers.base import Resources
from codehub.drivers.memory import MemoryWorld
from codehub.model.workspace import Desired, InstanceBackend
from tests.accounts.people import add_person, session_headers
from tests.db.support import add_workspace, read
from tests.support import eventually_async


async def test_the_coordinator_does_what_could_not_be_done_at_once(
    database: str, server_redis: str, settings: Settings, pool: Pool
) -> None:
    often = settings.coordinator.model_copy(update={"ttl_interval": 0.1})
    settings = settings.model_copy(update={"coordinator": often})
    ada = await add_person(pool)
    await session_headers(pool, ada, timedelta(seconds=-1))
    world = MemoryWorld()
    infrastructure = Infrastructure(world.archives, {InstanceBackend.PROCESS: world.backend()}, Resources())
    async with (
        await psycopg.AsyncConnection.connect(database, autocommit=True) as owner,
        open_coordinator(settings, infrastructure, database, server_redis) as coordinator,
    ):
        waiting = await add_workspace(owner, owner_user_id=ada.id, desired_state="RUNNING")
        await owner.execute("UPDATE users SET disabled_at = now()")  # by an API process that died right after
        running = asyncio.create_task(coordinator.run())
        try:

            async def is_tended() -> bool:
                async with connection(pool) as conn:
                    left = await (await conn.execute("SELECT count(*) FROM sessions")).fetchone()
                stepped_down = (await read(owner, waiting)).wish.desired_state is Desired.STANDBY
                return stepped_down and left == (0,)

            await eventually_async(is_tended, "it is tended")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
