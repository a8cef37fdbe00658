"""Activity in Redis: visits move forward, go only when they were not renewed, and are never lost silently."""

import time
from collections.abc import Mapping
from uuid import UUID

import pytest

from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId
from codehub.signals.activity import ACTIVITY, MARK, RedisActivity, Visit
from codehub.signals.connect import Redis, open_redis

A, B, C = (WorkspaceId(UUID(int=number)) for number in (10, 11, 12))
DAY = 86_400.0


class Clock:
    """A monotonic clock that may run away from Redis's: to whoever compares them, Redis's jumps the other way."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def activity(redis: Redis, clock: Clock) -> RedisActivity:
    """It has looked once, so it knows that nothing waits for it."""
    activity = RedisActivity(redis, clock)
    assert await activity.visits(1) == {}
    return activity


def ages(visits: Mapping[WorkspaceId, Visit]) -> dict[WorkspaceId, int]:
    """In whole seconds."""
    return {who: int(visit.age) for who, visit in visits.items()}


async def test_visits_come_back_with_their_age_oldest_first(activity: RedisActivity) -> None:
    await activity.report({A: 2.0, B: 90.0, C: 5.5})
    assert ages(await activity.visits(10)) == {A: 2, B: 90, C: 5}
    assert list(await activity.visits(2)) == [B, C]
    await activity.report({})


async def test_an_earlier_visit_changes_nothing(activity: RedisActivity) -> None:
    await activity.report({A: 2.0})
    await activity.report({A: 60.0, B: 3.0})
    assert ages(await activity.visits(10)) == {A: 2, B: 3}


async def test_a_visit_that_was_renewed_stays(activity: RedisActivity) -> None:
    await activity.report({A: 9.0, B: 9.0})
    taken = await activity.visits(10)
    await activity.report({A: 3.0})
    await activity.forget(taken)
    left = await activity.visits(10)
    assert ages(left) == {A: 3}
    await activity.forget({**left, C: taken[B]})
    assert await activity.visits(10) == {}
    await activity.forget({})


async def test_any_time_is_forgotten(activity: RedisActivity, redis: Redis) -> None:
    """Else it would be drained for ever."""
    await redis.zadd(ACTIVITY, {str(A): 1767323045.1234565, str(B): 1767323045.1234577, str(C): 1767323045.9999998})
    await activity.forget(await activity.visits(10))
    assert await activity.visits(10) == {}


@pytest.mark.parametrize("jump", [-DAY, DAY])
async def test_while_redis_clock_jumped_what_waits_counts_as_now(
    activity: RedisActivity, clock: Clock, jump: float
) -> None:
    await activity.report({A: 5.0, B: 7.0})
    clock.ahead = -jump
    assert ages(await activity.visits(1)) == {B: 0}
    await activity.forget(await activity.visits(1))
    assert ages(await activity.visits(1)) == {A: 0}, "it was told before the jump too"
    await activity.forget(await activity.visits(1))
    assert await activity.visits(1) == {}
    await activity.report({C: 5.0})
    assert ages(await activity.visits(1)) == {C: 5}, "told since: its age is known again"


async def test_what_waited_for_a_new_listener_counts_as_now(activity: RedisActivity, redis: Redis) -> None:
    """It cannot tell whether Redis's clock jumped before it came."""
    await activity.report({A: 50.0})
    assert ages(await RedisActivity(redis).visits(10)) == {A: 0}


async def test_a_visit_from_the_future_is_one_of_now(activity: RedisActivity, redis: Redis) -> None:
    """An older proxy wrote it, by a clock of its own; or Redis's clock was set back."""
    await redis.zadd(ACTIVITY, {str(A): time.time() + DAY})
    await activity.report({A: 0.0})
    found = await activity.visits(10)
    assert ages(found) == {A: 0}
    await activity.forget(found)
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
    await activity.report({A: 4.0})
    assert ages(await activity.visits(1)) == {A: 4}


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
        for call in (
            absent.report({A: 1.0}),
            absent.visits(1),
            absent.forget({A: Visit(1, 1)}),
            absent.is_continuous(),
        ):
            with pytest.raises(Unavailable, match="does not answer"):
                await call


async def test_a_refused_command_is_unavailable(activity: RedisActivity, redis: Redis) -> None:
    await redis.set(ACTIVITY, "not a sorted set")
    with pytest.raises(Unavailable, match="WRONGTYPE"):
        await activity.visits(1)
