"""The TTL runner on real servers: nobody is stopped whose use could not be heard of, and everything else goes on."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from codehub.coordinator.expire import Expirer
from codehub.coordinator.ports import Expiration
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.errors import Unavailable
from codehub.model.clocks import JUMP_SECONDS, ClockWatch
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
    before = await records.now()
    await RedisActivity(redis).report({used: 5.0, WorkspaceId(uuid4()): 5.0})
    await expirer.run_once()
    visit = (await read(owner, used)).wish.last_access_at
    assert visit is not None
    assert before <= visit + timedelta(seconds=5) <= await records.now(), "by the database's clock alone"
    assert await desired(owner, used) is Desired.RUNNING
    assert await desired(owner, idle) is Desired.STANDBY
    assert await redis.zcard(ACTIVITY) == 0


async def test_every_page_is_taken_in(records: DatabaseRecords, owner: Connection, redis: Redis) -> None:
    used = [await add_idle(owner) for _ in range(5)]
    idle = [await add_idle(owner) for _ in range(5)]
    stopped = [await add_stopped(owner) for _ in range(5)]
    expirer = trusting(records, redis, page=2)
    await expirer.run_once()
    assert {await desired(owner, each) for each in stopped} == {Desired.ARCHIVED}, "those that must wait hide nobody"
    await RedisActivity(redis).report(dict.fromkeys(used, 5.0))
    assert not await expirer.run_once()
    assert {await desired(owner, each) for each in used} == {Desired.RUNNING}
    assert {await desired(owner, each) for each in idle} == {Desired.STANDBY}


async def test_more_than_one_run_may_take_is_told(records: DatabaseRecords, owner: Connection, redis: Redis) -> None:
    idle = await add_idle(owner)
    expirer = trusting(records, redis, page=1, most_pages=2)
    await expirer.run_once()
    await RedisActivity(redis).report({WorkspaceId(uuid4()): 0.0 for _ in range(3)})
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
    await RedisActivity(redis).report({used: 0.0})
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


@dataclass
class JumpingClock(DatabaseRecords):
    """The database, whose clock may jump: everything in it is then that much older."""

    records: DatabaseRecords
    owner: Connection
    ahead: timedelta = timedelta(0)
    jump_while_reading: timedelta | None = None

    async def jump(self, by: timedelta) -> None:
        self.ahead += by
        await self.owner.execute(
            "UPDATE workspaces SET phase_changed_at = phase_changed_at - %(by)s, "
            "last_access_at = last_access_at - %(by)s, keep_awake_until = keep_awake_until - %(by)s",
            {"by": by},
        )

    async def now(self) -> datetime:
        return await self.records.now() + self.ahead

    async def due(self, limit: int) -> Sequence[Expiration]:
        if self.jump_while_reading is not None:
            await self.jump(self.jump_while_reading)
            self.jump_while_reading = None
        return await self.records.due(limit)

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        return await self.records.expire(expirations)

    async def touch(self, ages: Mapping[WorkspaceId, float]) -> int:
        return await self.records.touch(ages)

    async def restart_idle_times(self, jump: timedelta) -> int:
        return await self.records.restart_idle_times(jump)


@pytest.mark.parametrize("while_reading", [False, True], ids=["between two runs", "while it reads"])
@pytest.mark.parametrize("days", [-1, 1], ids=["back", "ahead"])
async def test_a_jump_of_the_databases_clock_stops_nobody(
    records: DatabaseRecords, owner: Connection, redis: Redis, days: int, while_reading: bool
) -> None:
    """Somebody used it five minutes ago and will again; nothing tells of that at this moment."""
    used = await add_idle(owner)
    await records.touch({used: 300.0})
    jumping, clock = JumpingClock(records, owner), ClockWatch(JUMP_SECONDS)
    expirer = Expirer(jumping, RedisActivity(redis), flush_interval=0, clock=clock)
    for _ in range(2):
        await expirer.run_once()
    if while_reading:
        jumping.jump_while_reading = timedelta(days=days)
    else:
        await jumping.jump(timedelta(days=days))
        expirer = Expirer(jumping, RedisActivity(redis), flush_interval=0, clock=clock)  # and the leadership changed
    for _ in range(3):
        await expirer.run_once()
    wish = (await read(owner, used)).wish
    assert wish.desired_state is Desired.RUNNING
    assert wish.last_access_at is not None
    assert abs(wish.last_access_at - await records.now()) < timedelta(minutes=1), "its idle time begins anew"
    idle = await add_idle(owner)
    await expirer.run_once()
    assert await desired(owner, idle) is Desired.STANDBY, "and from then on everything is as before"
