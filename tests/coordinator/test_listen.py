"""EventListener on real servers: what is notified arrives, gaps wake everybody, and Redis holds nothing up."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest

from codehub.coordinator.listen import EventListener
from codehub.db.pool import Connection
from codehub.model.workspace import UserId
from codehub.signals.connect import Redis, open_redis
from codehub.signals.events import Event, RedisEvents
from tests.db.support import OWNER, add_workspace, change
from tests.lab.wire import wire_to_database, wire_to_redis
from tests.support import background, eventually_async, until

GAP = ("t:sse:all", {"gap": True})


class Ears:
    """Everything that was published, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def sse(self, user: UserId = OWNER) -> list[tuple[str, str]]:
        return [(each["id"], each["event"]) for channel, each in self.heard if channel == f"t:sse:{user}"]

    async def listen(self, redis: Redis, ready: asyncio.Event) -> None:
        async with redis.pubsub() as channels:
            await channels.psubscribe("t:*")
            ready.set()
            while True:
                message = await channels.get_message(ignore_subscribe_messages=True, timeout=1)
                if message:
                    self.heard.append((message["channel"].decode(), json.loads(message["data"])))


class Woken:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


class HeldBack(RedisEvents):
    """Publishes only while the gate is open."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client, sse_prefix="t:sse:", wake_prefix="t:wake:")
        self.gate = asyncio.Event()
        self.attempts = 0
        self.batches: list[list[Event]] = []

    async def publish(self, events: Collection[Event], *, wake: bool = False, gap: bool = False) -> None:
        await self.gate.wait()
        self.attempts += 1
        self.batches.append(list(events))
        await super().publish(events, wake=wake, gap=gap)


def events_to(client: Redis) -> RedisEvents:
    return RedisEvents(client, sse_prefix="t:sse:", wake_prefix="t:wake:")


@pytest.fixture
async def ears(redis: Redis) -> AsyncIterator[Ears]:
    ears, ready = Ears(), asyncio.Event()
    async with background(ears.listen(redis, ready)):
        await ready.wait()
        yield ears


async def test_what_is_notified_arrives(database: str, owner: Connection, redis: Redis, ears: Ears) -> None:
    woken = Woken()
    identity = await add_workspace(owner, phase="STANDBY", desired_state="STANDBY")
    listener = EventListener(database, events_to(redis), woken)
    async with background(listener.run()):
        await until(lambda: GAP in ears.heard, "the first thing said is: read anew")
        assert listener.status.connected
        assert woken.times == 1
        await change(owner, identity, memo="m")
        await until(lambda: ears.sse() == [(str(identity), "workspace_updated")], "the change is published")
        assert woken.times == 1, "nobody asked for anything"
        ears.heard.clear()
        await change(owner, identity, desired_state="RUNNING")
        await until(lambda: ("t:wake:wc", {}) in ears.heard and ("t:wake:ob", {}) in ears.heard, "both parts are woken")
        assert woken.times >= 2
        ears.heard.clear()
        await change(owner, identity, deleted_at="2026-01-02T00:00:00Z")
        await until(lambda: (str(identity), "workspace_deleted") in ears.sse(), "the deletion is published")
        assert woken.times >= 3
        await until(lambda: listener.status.published >= 3, "counted")
        assert (listener.status.dropped, listener.status.is_failing) == (0, False)


async def test_a_burst_of_one_workspace_is_published_once(database: str, owner: Connection, redis: Redis) -> None:
    first, second = await add_workspace(owner), await add_workspace(owner)
    events = HeldBack(redis)
    listener = EventListener(database, events)
    async with background(listener.run()):
        await until(lambda: listener.status.connected, "connected")
        for number in range(10):
            await change(owner, first, memo=f"{number}")
        await change(owner, second, memo="m")
        await change(owner, first, memo="last")
        await until(lambda: listener.status.heard == 12, "everything was heard")
        events.gate.set()
        await until(lambda: listener.status.published, "published")
        told = [event.workspace_id for batch in events.batches for event in batch]
        assert told == [str(second), str(first)]


async def test_a_killed_connection_is_a_gap(database: str, owner: Connection, redis: Redis, ears: Ears) -> None:
    woken = Woken()
    identity = await add_workspace(owner)
    listener = EventListener(database, events_to(redis), woken)
    async with background(listener.run()):
        await until(lambda: GAP in ears.heard, "listening")
        ears.heard.clear()
        before = woken.times
        await owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'codehub listener' AND datname = current_database()"
        )
        await until(lambda: listener.status.gaps == 2, "connected anew")
        assert woken.times > before, "whatever was asked for meanwhile is looked for"
        await until(lambda: GAP in ears.heard, "everybody reads anew")
        await change(owner, identity, memo="m")
        await until(lambda: (str(identity), "workspace_updated") in ears.sse(), "it listens again")
        assert not listener.status.is_failing


async def test_a_silent_connection_is_given_up(database: str, owner: Connection, redis: Redis) -> None:
    async with wire_to_database(database) as (wire, url):
        listener = EventListener(url, events_to(redis), ping_seconds=0.1)
        async with background(listener.run()):
            await until(lambda: listener.status.connected, "connected")
            wire.silence()
            await until(lambda: listener.status.deaf_since is not None, "the silence is noticed")
            assert not listener.status.connected
            await wire.cut()
            await wire.mend()
            await until(lambda: listener.status.gaps == 2, "connected anew")
            assert listener.status.deaf_since is None


async def test_a_quiet_connection_is_kept(database: str, owner: Connection, redis: Redis) -> None:
    async with wire_to_database(database) as (wire, url):
        listener = EventListener(url, events_to(redis), ping_seconds=0.05)
        async with background(listener.run()):
            await until(lambda: listener.status.connected, "connected")
            carried = wire.carried
            await until(lambda: wire.carried > carried + 200, "several pings went by")
            assert listener.status.gaps == 1


async def test_a_database_that_is_away_is_tried_again(database: str, redis: Redis) -> None:
    async with wire_to_database(database) as (wire, url):
        await wire.cut()
        listener = EventListener(url, events_to(redis))
        async with background(listener.run()):
            await until(lambda: listener.status.deaf_since is not None, "it is not there")
            await wire.mend()
            await until(lambda: listener.status.connected, "it is")


async def test_redis_away_holds_nothing_up(
    database: str, owner: Connection, server_redis: str, redis: Redis, ears: Ears
) -> None:
    woken = Woken()
    identity = await add_workspace(owner)
    async with wire_to_redis(server_redis) as (wire, url), open_redis(url) as through_the_wire:
        events = HeldBack(through_the_wire)
        events.gate.set()
        listener = EventListener(database, events, woken)
        async with background(listener.run()):
            await until(lambda: GAP in ears.heard, "listening")
            await wire.cut()
            ears.heard.clear()
            for number in range(5):
                await change(owner, identity, memo=f"{number}")
            await until(lambda: listener.status.dropped >= 1, "dropped")
            before = woken.times
            await change(owner, identity, desired_state="STANDBY")
            await until(lambda: woken.times > before, "the controller is woken all the same")
            attempts = events.attempts
            await until(lambda: events.attempts > attempts + 1, "it was tried to tell of it, in vain")
            assert listener.status.mute_since is not None
            assert ears.heard == []
            await wire.mend()
            await until(lambda: listener.status.mute_since is None, "Redis is back")
            await until(lambda: GAP in ears.heard, "everybody reads anew")
            await until(lambda: ("t:wake:wc", {}) in ears.heard, "the other parts are woken late, but are")
            await change(owner, identity, memo="after")
            await until(ears.sse, "it publishes again")
            assert listener.status.gaps == 1, "PostgreSQL was heard all the time"


async def test_what_piles_up_becomes_one_gap(database: str, owner: Connection, redis: Redis, ears: Ears) -> None:
    events = HeldBack(redis)
    listener = EventListener(database, events)
    async with background(listener.run()):
        await until(lambda: listener.status.connected, "connected")
        await owner.execute(
            """SELECT count(pg_notify('ws_sse', json_build_object('id', n, 'owner_user_id', 'u')::text))
               FROM generate_series(1, 10500) AS n"""
        )
        await until(lambda: listener.status.heard == 10500, "all heard")
        assert listener.status.dropped > 10_000
        events.gate.set()
        await until(lambda: listener.status.published, "the rest is published")
        assert sum(len(batch) for batch in events.batches) == 10500 - listener.status.dropped
        await until(lambda: GAP in ears.heard, "everybody reads anew")


async def test_rubbish_is_ignored(database: str, owner: Connection, redis: Redis, ears: Ears) -> None:
    identity = await add_workspace(owner)
    listener = EventListener(database, events_to(redis))
    async with background(listener.run()):
        await until(lambda: listener.status.connected, "connected")
        for payload in ("", "{}", "[]", "3", '{"id": 1}', "\u00e9"):
            await owner.execute("SELECT pg_notify('ws_sse', %s)", [payload])
        await change(owner, identity, memo="m")
        await until(lambda: ears.sse() == [(str(identity), "workspace_updated")], "it goes on")
        assert not listener.status.is_failing


async def test_what_is_heard_and_not_told_yet_is_a_lag(database: str, owner: Connection, redis: Redis) -> None:
    events = HeldBack(redis)
    listener = EventListener(database, events)
    async with background(listener.run()):

        async def is_late() -> bool:
            return listener.status.lag_seconds > 0.05

        async def is_even() -> bool:
            return listener.status.lag_seconds == 0.0

        await eventually_async(is_late, "the gap at the beginning waits to be told")
        events.gate.set()
        await eventually_async(is_even, "everything is told")
        await add_workspace(owner)
        await eventually_async(is_even, "and stays so")
