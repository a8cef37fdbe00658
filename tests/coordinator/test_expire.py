"""The TTL runner on real servers: nobody is stopped whose use could not be heard of, and everything else goes on."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from codehub.coordinator.expire import Expirer
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.errors import Unavailable
from codehub.model.workspace import Desired, WorkspaceId
from codehub.signals.activity import ACTIVITY, RedisActivity
from codehub.signals.connect import Redis, open_redis
from tests.db.support import add_workspace, read
from tests.lab.wire import wire_to_redis
from tests.support import eventually_async

FLUSH = 0.2
LONG_AGO = datetime.now(UTC) - timedelta(days=1)


async def add_idle(owner: Connection) -> WorkspaceId:
    """Runs, and nobody has used it for a day."""
    return await add_workspace(owner, phase="RUNNING", phase_changed_at=LONG_AGO)


async def add_stopped(owner: Connection) -> WorkspaceId:
    return await add_workspace(owner, phase="STANDBY", desired_state="STANDBY", phase_changed_at=LONG_AGO)


async def desired(owner: Connection, identity: WorkspaceId) -> Desired:
    return (await read(owner, identity)).wish.desired_state


def trusting(records: DatabaseRecords, redis: Redis, *, page: int = 1000, most_pages: int = 100) -> Expirer:
    """One that needs no time to trust Redis; the first run makes the mark."""
    return Expirer(records, RedisActivity(redis), flush_interval=0, page=page, most_pages=most_pages)


async def test_the_idle_step_down(records: DatabaseRecords, owner: Connection, redis: Redis) -> None:
    running, stopped = await add_idle(owner), await add_stopped(owner)
    expirer = trusting(records, redis)
    assert not await expirer.run_once()
    assert await desired(owner, stopped) is Desired.ARCHIVED
    assert await desired(owner, running) is Desired.RUNNING, "what was before this run was not heard"
    assert not await expirer.run_once()
    assert await desired(owner, running) is Desired.STANDBY
    assert (await read(owner, running)).wish.asked_by.startswith("ttl: ")


async def test_visits_are_taken_in_and_count(records: DatabaseRecords, owner: Connection, redis: Redis) -> None:
    used, idle = await add_idle(owner), await add_idle(owner)
    expirer = trusting(records, redis)
    await expirer.run_once()
    visit = datetime.now(UTC) - timedelta(seconds=5)
    await RedisActivity(redis).report({used: visit, WorkspaceId(uuid4()): visit})
    await expirer.run_once()
    assert (await read(owner, used)).wish.last_access_at == visit
    assert await desired(owner, used) is Desired.RUNNING
    assert await desired(owner, idle) is Desired.STANDBY
    assert await redis.zcard(ACTIVITY) == 0


async def test_every_page_is_taken_in(records: DatabaseRecords, owner: Connection, redis: Redis) -> None:
    visit = datetime.now(UTC) - timedelta(seconds=5)
    used = [await add_idle(owner) for _ in range(5)]
    idle = [await add_idle(owner) for _ in range(5)]
    stopped = [await add_stopped(owner) for _ in range(5)]
    expirer = trusting(records, redis, page=2)
    await expirer.run_once()
    assert {await desired(owner, each) for each in stopped} == {Desired.ARCHIVED}, "those that must wait hide nobody"
    await RedisActivity(redis).report(dict.fromkeys(used, visit))
    assert not await expirer.run_once()
    assert {await desired(owner, each) for each in used} == {Desired.RUNNING}
    assert {await desired(owner, each) for each in idle} == {Desired.STANDBY}


async def test_more_than_one_run_may_take_is_told(records: DatabaseRecords, owner: Connection, redis: Redis) -> None:
    idle = await add_idle(owner)
    expirer = trusting(records, redis, page=1, most_pages=2)
    await expirer.run_once()
    visit = datetime.now(UTC)
    await RedisActivity(redis).report({WorkspaceId(uuid4()): visit for _ in range(3)})
    assert await expirer.run_once()
    assert await desired(owner, idle) is Desired.RUNNING, "there may be a visit to it among the rest"
    stopped = [await add_stopped(owner) for _ in range(3)]
    assert await expirer.run_once()
    assert await desired(owner, idle) is Desired.STANDBY
    while await expirer.run_once():
        pass
    assert {await desired(owner, each) for each in stopped} == {Desired.ARCHIVED}


async def stopped_after(expirer: Expirer, owner: Connection, idle: WorkspaceId) -> float:
    """How long it took from now on, running all the time."""
    started = asyncio.get_running_loop().time()

    async def is_stopped() -> bool:
        await expirer.run_once()
        return await desired(owner, idle) is Desired.STANDBY

    await eventually_async(is_stopped, "the idle one is stopped")
    return asyncio.get_running_loop().time() - started


async def test_a_new_runner_listens_for_two_flush_intervals_first(
    records: DatabaseRecords, owner: Connection, redis: Redis
) -> None:
    expirer = Expirer(records, RedisActivity(redis), flush_interval=FLUSH)
    assert await stopped_after(expirer, owner, await add_idle(owner)) >= 2 * FLUSH


async def test_a_flush_of_redis_starts_the_two_intervals_anew(
    records: DatabaseRecords, owner: Connection, redis: Redis
) -> None:
    """The visit was told and lost before it was taken in: its user must not be stopped for it."""
    expirer = Expirer(records, RedisActivity(redis), flush_interval=FLUSH)
    await stopped_after(expirer, owner, await add_idle(owner))
    idle = await add_idle(owner)
    await expirer.run_once()
    assert await desired(owner, idle) is Desired.STANDBY, "it is trusted now"
    used = await add_idle(owner)
    await RedisActivity(redis).report({used: datetime.now(UTC)})
    await redis.flushall()
    assert await stopped_after(expirer, owner, used) >= 2 * FLUSH


async def test_without_redis_nobody_is_stopped_and_the_stopped_are_archived(
    records: DatabaseRecords, owner: Connection, server_redis: str, redis: Redis
) -> None:
    async with wire_to_redis(server_redis) as (wire, url), open_redis(url) as through_the_wire:
        expirer = Expirer(records, RedisActivity(through_the_wire), flush_interval=FLUSH)
        await stopped_after(expirer, owner, await add_idle(owner))
        await wire.cut()
        idle, stopped = await add_idle(owner), await add_stopped(owner)
        with pytest.raises(Unavailable):
            await expirer.run_once()
        assert await desired(owner, stopped) is Desired.ARCHIVED
        assert await desired(owner, idle) is Desired.RUNNING
        await wire.mend()
        assert await stopped_after(expirer, owner, idle) >= 2 * FLUSH
