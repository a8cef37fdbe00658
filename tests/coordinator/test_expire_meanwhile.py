"""The TTL runner while things change: whatever happens between its reading and its writing wins."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from codehub.coordinator.expire import Expirer
from codehub.coordinator.ports import Expiration
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.errors import Unavailable
from codehub.model.workspace import Desired, WorkspaceId
from codehub.signals.activity import ACTIVITY, RedisActivity, Visit
from codehub.signals.connect import Redis, open_redis
from tests.coordinator.test_expire import add_idle, add_stopped, desired
from tests.db.support import read
from tests.lab.wire import wire_to_redis


@dataclass
class Meanwhile(DatabaseRecords):
    """Something happens right after the runner read or wrote."""

    records: DatabaseRecords
    after_due: Callable[[], Awaitable[object]] | None = None
    after_touch: Callable[[], Awaitable[object]] | None = None
    touched: list[Mapping[WorkspaceId, float]] = field(default_factory=list)

    async def now(self) -> datetime:
        return await self.records.now()

    async def due(self, limit: int) -> Sequence[Expiration]:
        found = await self.records.due(limit)
        if self.after_due and found:
            await self.after_due()
        return found

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        return await self.records.expire(expirations)

    async def touch(self, ages: Mapping[WorkspaceId, float]) -> int:
        self.touched.append(ages)
        count = await self.records.touch(ages)
        if self.after_touch:
            happening, self.after_touch = self.after_touch, None
            await happening()
        return count


async def test_activity_between_reading_and_writing_wins(
    records: DatabaseRecords, owner: Connection, redis: Redis
) -> None:
    """Whether a proxy told Redis of it, or it is in the row already."""
    by_redis, by_row, idle = [await add_idle(owner) for _ in range(3)]

    async def visited() -> None:
        await RedisActivity(redis).report({by_redis: 0.0})
        await records.touch({by_row: 0.0})

    meanwhile = Meanwhile(records)
    expirer = Expirer(meanwhile, RedisActivity(redis), flush_interval=0)
    await expirer.run_once()
    meanwhile.after_due = visited
    await expirer.run_once()
    assert await desired(owner, by_redis) is Desired.RUNNING
    assert await desired(owner, by_row) is Desired.RUNNING
    assert await desired(owner, idle) is Desired.STANDBY


async def test_a_flush_between_reading_and_writing_is_noticed(
    records: DatabaseRecords, owner: Connection, redis: Redis
) -> None:
    idle = await add_idle(owner)
    meanwhile = Meanwhile(records)
    expirer = Expirer(meanwhile, RedisActivity(redis), flush_interval=0)
    await expirer.run_once()
    stopped = await add_stopped(owner)
    meanwhile.after_due = redis.flushall
    await expirer.run_once()
    assert await desired(owner, idle) is Desired.RUNNING
    assert await desired(owner, stopped) is Desired.ARCHIVED


class Flushed(RedisActivity):
    """Loses everything right before it is asked for visits, at the call of the test's choosing."""

    def __init__(self, redis: Redis, call: int) -> None:
        super().__init__(redis)
        self.redis, self.calls_left = redis, call

    async def visits(self, limit: int) -> Mapping[WorkspaceId, Visit]:
        self.calls_left -= 1
        if self.calls_left == 0:
            await self.redis.flushall()
        return await super().visits(limit)


@pytest.mark.parametrize("call", [2, 3])  # the first run asks once, the second before and after reading what is due
async def test_a_flush_right_before_the_visits_are_asked_for_is_noticed(
    records: DatabaseRecords, owner: Connection, redis: Redis, call: int
) -> None:
    idle = await add_idle(owner)
    expirer = Expirer(records, Flushed(redis, call), flush_interval=0)
    await expirer.run_once()
    await expirer.run_once()
    assert await desired(owner, idle) is Desired.RUNNING
    await expirer.run_once()
    assert await desired(owner, idle) is Desired.STANDBY


async def test_redis_lost_between_reading_and_writing_stops_nobody(
    records: DatabaseRecords, owner: Connection, server_redis: str, redis: Redis
) -> None:
    async with wire_to_redis(server_redis) as (wire, url), open_redis(url) as through_the_wire:
        meanwhile = Meanwhile(records)
        expirer = Expirer(meanwhile, RedisActivity(through_the_wire), flush_interval=0)
        await expirer.run_once()
        idle, stopped = await add_idle(owner), await add_stopped(owner)

        async def lost() -> None:
            meanwhile.after_due = None
            await wire.cut()

        meanwhile.after_due = lost
        with pytest.raises(Unavailable):
            await expirer.run_once()
        assert await desired(owner, idle) is Desired.RUNNING
        assert await desired(owner, stopped) is Desired.ARCHIVED


async def test_a_visit_renewed_while_it_is_taken_in_is_taken_in_again(
    records: DatabaseRecords, owner: Connection, redis: Redis
) -> None:
    used = await add_idle(owner)
    activity = RedisActivity(redis)
    await activity.visits(1)
    meanwhile = Meanwhile(records, after_touch=lambda: activity.report({used: 5.0}))
    await activity.report({used: 9.0})
    before = await records.now()
    await Expirer(meanwhile, activity, flush_interval=0).run_once()
    assert [int(ages[used]) for ages in meanwhile.touched] == [9, 5]
    visit = (await read(owner, used)).wish.last_access_at
    assert visit is not None
    assert visit >= before - timedelta(seconds=6)
    assert await redis.zcard(ACTIVITY) == 0


async def test_after_a_collision_the_next_runs_come_sooner_with_growing_pauses(
    records: DatabaseRecords, owner: Connection, redis: Redis
) -> None:
    """A conflict is retried with backoff, and no more once there is none."""
    idle = await add_stopped(owner)

    async def renamed() -> None:
        await owner.execute("UPDATE workspaces SET archive_ttl_seconds = archive_ttl_seconds + 1 WHERE id = %s", [idle])

    meanwhile = Meanwhile(records)
    expirer = Expirer(meanwhile, RedisActivity(redis), flush_interval=0)
    assert expirer.period(60) == 60
    meanwhile.after_due = renamed
    pauses = []
    for _ in range(8):
        await expirer.run_once()
        pauses.append(expirer.period(60))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    meanwhile.after_due = None
    await expirer.run_once()
    assert expirer.period(60) == 60
    assert await desired(owner, idle) is Desired.ARCHIVED
