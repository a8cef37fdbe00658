"""Activity in Redis: visits move forward, go only when they were not renewed, and are never lost silently."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId
from codehub.signals.activity import ACTIVITY, MARK, RedisActivity
from codehub.signals.connect import Redis, open_redis

NOW = datetime(2026, 1, 2, 3, 4, 5, 123457, tzinfo=UTC)
A, B, C = (WorkspaceId(UUID(int=number)) for number in (10, 11, 12))


@pytest.fixture
def activity(redis: Redis) -> RedisActivity:
    return RedisActivity(redis)


async def test_visits_come_back_to_the_microsecond_oldest_first(activity: RedisActivity) -> None:
    times = {A: NOW + timedelta(seconds=2), B: NOW, C: NOW + timedelta(microseconds=1)}
    await activity.report(times)
    assert dict(await activity.visits(10)) == times
    assert list(await activity.visits(2)) == [B, C]
    await activity.report({})


async def test_an_earlier_visit_changes_nothing(activity: RedisActivity) -> None:
    await activity.report({A: NOW})
    await activity.report({A: NOW - timedelta(seconds=1), B: NOW})
    assert await activity.visits(10) == {A: NOW, B: NOW}


async def test_a_visit_that_was_renewed_stays(activity: RedisActivity) -> None:
    await activity.report({A: NOW, B: NOW})
    taken = await activity.visits(10)
    later = NOW + timedelta(microseconds=2)
    await activity.report({A: later})
    await activity.forget(taken)
    assert await activity.visits(10) == {A: later}
    await activity.forget({A: later, C: NOW})
    assert await activity.visits(10) == {}
    await activity.forget({})


async def test_a_time_finer_than_ours_is_forgotten_too(activity: RedisActivity, redis: Redis) -> None:
    """Else it would be drained for ever."""
    await redis.zadd(ACTIVITY, {str(A): 1767323045.1234565, str(B): 1767323045.1234577, str(C): 1767323045.9999998})
    await activity.forget(await activity.visits(10))
    assert await activity.visits(10) == {}


async def test_what_is_no_visit_is_removed_and_counted(activity: RedisActivity, redis: Redis) -> None:
    await redis.zadd(ACTIVITY, {"rubbish": 1.0, str(A).upper() + "\n": 3.0, A.hex: 4.0})
    await redis.zadd(ACTIVITY, {b"\xff\xfe": 2.0})
    await redis.zadd(ACTIVITY, {str(B): float("inf"), str(C): 1e300})
    assert await activity.visits(1) == {}
    assert activity.garbage == 6
    assert await redis.zcard(ACTIVITY) == 0


async def test_rubbish_does_not_hide_visits(activity: RedisActivity, redis: Redis) -> None:
    await redis.zadd(ACTIVITY, {"rubbish": 1.0, "more": 2.0})
    await activity.report({A: NOW})
    assert await activity.visits(1) == {A: NOW}


async def test_continuous_is_what_nobody_interrupted(activity: RedisActivity) -> None:
    assert not await activity.is_continuous()
    assert await activity.is_continuous()
    assert await activity.is_continuous()


async def test_a_flush_is_noticed(activity: RedisActivity, redis: Redis) -> None:
    await activity.is_continuous()
    await redis.flushall()
    assert not await activity.is_continuous()
    assert await activity.is_continuous()


async def test_an_old_snapshot_is_noticed(activity: RedisActivity, redis: Redis) -> None:
    await activity.is_continuous()
    snapshot = await redis.get(MARK)
    assert await activity.is_continuous()
    assert snapshot is not None
    await redis.set(MARK, snapshot)
    assert not await activity.is_continuous()


async def test_another_server_is_noticed(activity: RedisActivity) -> None:
    await activity.is_continuous()
    activity._server = "before the restart"
    assert not await activity.is_continuous()
    assert await activity.is_continuous()


async def test_another_listener_is_noticed(activity: RedisActivity, redis: Redis) -> None:
    await activity.is_continuous()
    assert not await RedisActivity(redis).is_continuous()
    assert not await activity.is_continuous()


async def test_no_redis_is_unavailable() -> None:
    async with open_redis("redis://127.0.0.1:1/0") as nowhere:
        absent = RedisActivity(nowhere)
        for call in (absent.report({A: NOW}), absent.visits(1), absent.forget({A: NOW}), absent.is_continuous()):
            with pytest.raises(Unavailable, match="does not answer"):
                await call


async def test_a_refused_command_is_unavailable(activity: RedisActivity, redis: Redis) -> None:
    await redis.set(ACTIVITY, "not a sorted set")
    with pytest.raises(Unavailable, match="WRONGTYPE"):
        await activity.visits(1)
