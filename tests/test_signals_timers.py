"""Orphans' timers and published events in Redis."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from codehub.errors import Unavailable
from codehub.signals.connect import Redis, open_redis
from codehub.signals.events import DELETED, Event, RedisEvents
from codehub.signals.timers import ORPHANS, RedisTimers

NOW = datetime(2026, 1, 2, 3, 4, 5, 123457, tzinfo=UTC)


async def test_a_timer_that_runs_is_left_alone(redis: Redis) -> None:
    timers = RedisTimers(redis)
    assert await timers.all() == {}
    await timers.start(["a", "b"], NOW)
    await timers.start(["b", "c"], NOW + timedelta(hours=1))
    assert await timers.all() == {"a": NOW, "b": NOW, "c": NOW + timedelta(hours=1)}
    await timers.clear(["a", "never"])
    assert set(await timers.all()) == {"b", "c"}


async def test_any_number_of_timers(redis: Redis) -> None:
    timers = RedisTimers(redis)
    keys = [f"key {number}" for number in range(2500)]
    await timers.start(keys, NOW)
    assert set(await timers.all()) == set(keys)
    await timers.clear(keys)
    assert await timers.all() == {}
    await timers.start([], NOW)
    await timers.clear([])


async def test_what_is_no_time_is_no_timer(redis: Redis) -> None:
    await redis.hset(ORPHANS, mapping={"a": "soon", "b": "2026-01-02T03:04:05", "c": b"\xff", "d": NOW.isoformat()})
    assert await RedisTimers(redis).all() == {"d": NOW}


async def test_no_redis_is_unavailable() -> None:
    async with open_redis("redis://127.0.0.1:1/0") as nowhere:
        timers, events = RedisTimers(nowhere), RedisEvents(nowhere, sse_prefix="s:", wake_prefix="w:")
        for call in (timers.all(), timers.start(["a"], NOW), timers.clear(["a"]), events.publish([], wake=True)):
            with pytest.raises(Unavailable, match="does not answer"):
                await call


async def test_events_go_to_their_channels(redis: Redis) -> None:
    async with redis.pubsub() as channels:
        await channels.psubscribe("s:*", "w:*")
        events = RedisEvents(redis, sse_prefix="s:", wake_prefix="w:")
        await events.publish([Event("w1", "u1"), Event("w2", "u2", DELETED)], wake=True, gap=True)
        await events.publish([])
        heard: list[tuple[str, object]] = []
        async with asyncio.timeout(20):
            while len(heard) < 5:
                message = await channels.get_message(ignore_subscribe_messages=True, timeout=1)
                if message:
                    heard.append((message["channel"].decode(), json.loads(message["data"])))
    assert heard == [
        ("s:all", {"gap": True}),
        ("w:ob", {}),
        ("w:wc", {}),
        ("s:u1", {"id": "w1", "event": "workspace_updated"}),
        ("s:u2", {"id": "w2", "event": "workspace_deleted"}),
    ]
