"""GET /events while something is away, or somebody does not read: nothing is missed, and nothing piles up."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from codehub.db.pool import Connection
from codehub.model.workspace import UserId, WorkspaceId
from codehub.signals.connect import Redis
from codehub.web.live import Pace
from codehub.web.stream import Stream
from tests.accounts.people import Person, session_headers
from tests.db.support import add_workspace, change
from tests.events.dashboards import QUICK, Server, publishing, serving
from tests.lab.wire import wire_to_database, wire_to_redis
from tests.support import until


async def add(owner: Connection, user: UserId, name: str = "w", **columns: Any) -> WorkspaceId:
    return await add_workspace(owner, owner_user_id=user, name=name, **columns)


async def test_redis_away_and_back(database: str, server_redis: str, redis: Redis, owner: Connection) -> None:
    async with wire_to_redis(server_redis) as (wire, url), serving(database, url) as server:
        ada = await server.person()
        identity, doomed = await add(owner, ada.id, "one"), await add(owner, ada.id, "doomed")
        async with publishing(database, server_redis), server.dashboard(ada) as dashboard:
            await until(lambda: not server.hub.status.is_deaf, "Redis is heard")
            await wire.cut()
            await until(lambda: server.hub.status.is_deaf, "Redis is not heard")
            await change(owner, identity, name="meanwhile")
            await change(owner, doomed, deleted_at="2026-01-02T00:00:00Z")
            await dashboard.until(lambda it: it.names(identity) == ["one", "meanwhile"], "changes are found")
            await dashboard.until(lambda it: it.of(doomed)[-1][0] == "workspace_deleted", "deletions are found")
            async with server.dashboard(ada) as later:
                assert later.names(identity) == ["meanwhile"], "whoever comes meanwhile is shown everything"
            await wire.mend()
            await until(lambda: not server.hub.status.is_deaf, "Redis is heard again")
            await change(owner, identity, name="again")
            await dashboard.until(lambda it: it.names(identity) == ["one", "meanwhile", "again"], "changes are heard")
            assert not dashboard.is_over


async def test_what_was_missed_while_redis_was_away_is_told_when_it_is_back(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    pace = Pace(poll_seconds=3600, again_seconds=0.05)  # without looking meanwhile
    async with wire_to_redis(server_redis) as (wire, url), serving(database, url, pace) as server:
        ada = await server.person()
        identity, doomed = await add(owner, ada.id, "one"), await add(owner, ada.id, "doomed")
        async with server.dashboard(ada) as dashboard:
            await until(lambda: not server.hub.status.is_deaf, "Redis is heard")
            await wire.cut()
            await until(lambda: server.hub.status.is_deaf, "Redis is not heard")
            await change(owner, identity, name="meanwhile")
            await change(owner, doomed, deleted_at="2026-01-02T00:00:00Z")
            new = await add(owner, ada.id, "new")
            await wire.mend()
            await dashboard.until(lambda it: it.names(identity) == ["one", "meanwhile"], "the change")
            await dashboard.until(lambda it: it.of(doomed)[-1][0] == "workspace_deleted", "the deletion")
            await dashboard.until(lambda it: it.names(new) == ["new"], "the new one")


async def test_a_silent_redis_is_noticed(database: str, server_redis: str, redis: Redis, owner: Connection) -> None:
    async with wire_to_redis(server_redis) as (wire, url), serving(database, url) as server:
        ada = await server.person()
        identity = await add(owner, ada.id, "one")
        async with server.dashboard(ada) as dashboard:
            await until(lambda: not server.hub.status.is_deaf, "Redis is heard")
            wire.silence()
            await until(lambda: server.hub.status.is_deaf, "the silence is noticed")
            await change(owner, identity, name="meanwhile")
            await dashboard.until(lambda it: it.names(identity) == ["one", "meanwhile"], "changes are found")


async def test_a_killed_subscription_is_a_gap(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    """The library would connect again by itself and say nothing of what was missed."""
    async with serving(database, server_redis, Pace(poll_seconds=3600, again_seconds=0.05)) as server:
        ada = await server.person()
        identity = await add(owner, ada.id, "one")
        async with server.dashboard(ada) as dashboard:
            for round_ in range(1, 3):
                await until(lambda n=round_: server.hub.status.gaps == n, "Redis is heard")
                await change(owner, identity, name=f"missed {round_}")  # nobody publishes it
                await redis.client_kill_filter(_type="pubsub")
                await dashboard.until(lambda it, n=round_: it.names(identity)[-1] == f"missed {n}", "read anew")


async def test_the_leader_s_gap_is_everybody_s(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    async with serving(database, server_redis, Pace(poll_seconds=3600)) as server:
        people = [await server.person(name) for name in ("ada", "bob")]
        ids = [await add(owner, person.id, "one") for person in people]
        async with server.dashboard(people[0]) as first, server.dashboard(people[1]) as second:
            await until(lambda: not server.hub.status.is_deaf, "Redis is heard")
            for identity in ids:
                await change(owner, identity, name="missed")
            await redis.publish(f"{server.context.settings.redis_channels.sse_prefix}all", '{"gap": true}')
            for dashboard, identity in zip((first, second), ids, strict=True):
                await dashboard.until(lambda it, i=identity: it.names(i) == ["one", "missed"], "read anew")


async def test_postgresql_away_and_back(database: str, server_redis: str, redis: Redis, owner: Connection) -> None:
    async with (
        wire_to_database(database) as (wire, url),
        serving(url, server_redis) as server,
        publishing(database, server_redis),
    ):
        ada = await server.person()
        identity = await add(owner, ada.id, "one")
        async with server.dashboard(ada) as dashboard:
            await until(lambda: not server.hub.status.is_deaf, "Redis is heard")
            await wire.cut()
            await change(owner, identity, name="meanwhile")
            await until(lambda: len(server.hub._troubles) == 2, "neither rows nor sessions can be read")
            assert not dashboard.is_over, "not knowing ends nothing"
            assert dashboard.names(identity) == ["one"]
            await wire.mend()
            await dashboard.until(lambda it: it.names(identity) == ["one", "meanwhile"], "nothing is forgotten")
            await until(lambda: not server.hub._troubles, "all is well")
            assert not dashboard.is_over


# -- slow readers -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def asleep(server: Server, person: Person) -> AsyncIterator[socket.socket]:
    """Somebody who asks and never reads."""
    address = urlsplit(server.url)
    headers = await session_headers(server.pool, person)
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(line, (address.hostname, address.port))
        lines = ["GET /api/v1/events HTTP/1.1", "Host: test", *(f"{name}: {value}" for name, value in headers.items())]
        await loop.sock_sendall(line, "\r\n".join([*lines, "", ""]).encode())
        yield line


async def read_to_the_end(line: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    found = b""
    try:
        async with asyncio.timeout(20):
            while data := await loop.sock_recv(line, 1 << 20):
                found += data
    except ConnectionError:
        pass
    return found


@asynccontextmanager
async def with_a_sleeper(server: Server, owner: Connection, person: Person) -> AsyncIterator[socket.socket]:
    """One that was dropped, after as many changes as that takes."""
    ids = [await add(owner, person.id, "w", memo="x" * 50_000) for _ in range(5)]
    async with asleep(server, person) as sleeper:
        number = 0
        while not server.hub.status.dropped:
            number += 1
            assert number < 2000
            for identity in ids:
                await change(owner, identity, memo=f"{number}" + "x" * 50_000)
        yield sleeper


SLOW = Pace(stall_seconds=0.5, user_seconds=0.01, read_seconds=0.001, streams_per_user=2)


async def test_whoever_does_not_read_is_dropped(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    async with serving(database, server_redis, SLOW) as server, publishing(database, server_redis):
        ada = await server.person()
        async with server.dashboard(ada) as dashboard, with_a_sleeper(server, owner, ada) as sleeper:
            identity = await add(owner, ada.id, "still told")
            await dashboard.until(lambda it: it.names(identity) == ["still told"], "others go on")
            (stream,) = (each for each in server.hub._streams() if each.is_dropped)
            assert not stream._waiting, "nothing is kept for it"
            heard = await read_to_the_end(sleeper)
            assert b"workspace_updated" in heard, "its connection is closed"
            assert str(identity).encode() not in heard
            await until(lambda: server.hub.status.streams == 1, "its place is free")
            assert not dashboard.is_over


async def test_dropped_ones_keep_their_place_until_they_are_gone(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    """Or else whoever connects again and again, and never reads, would pile up connections."""
    async with serving(database, server_redis, SLOW) as server, publishing(database, server_redis):
        ada = await server.person()
        async with with_a_sleeper(server, owner, ada), server.dashboard(ada):
            assert server.hub.status.streams == 2
            async with server.dashboard(ada, is_shown=False) as refused:
                assert refused.status == 429
        await until(lambda: server.hub.status.streams == 0, "all are gone")


@pytest.mark.exhaustive
async def test_a_sleeper_does_not_hold_up_the_end(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    async with AsyncExitStack() as outside:
        inside = AsyncExitStack()
        server = await inside.enter_async_context(serving(database, server_redis, SLOW))
        await inside.enter_async_context(publishing(database, server_redis))
        await outside.enter_async_context(with_a_sleeper(server, owner, await server.person()))
        server.serving.cancel()
        await until(lambda: server.hub.status.streams == 0, "it has ended")
        outside.push_async_callback(inside.aclose)


async def test_what_waits_is_the_newest_of_each(database: str) -> None:
    stream = Stream(None)  # type: ignore[arg-type]  # nobody's
    first, second = WorkspaceId(UUID(int=1)), WorkspaceId(UUID(int=2))
    for number in range(10_000):
        stream.put(first, b"first %d\n" % number)
        stream.put(second, b"second %d\n" % number)
    later = asyncio.get_running_loop().time() + 60
    assert await stream.next(later) == b"first 9999\nsecond 9999\n"
    stream.put(first, b"first again\n")
    assert await stream.next(later) == b"first again\n"
    assert await stream.next(asyncio.get_running_loop().time() + 0.01) == b"", "nothing more"


async def test_much_is_written_piece_by_piece(database: str) -> None:
    stream = Stream(None)  # type: ignore[arg-type]  # nobody's
    for number in range(100):
        stream.put(WorkspaceId(UUID(int=number)), b"%03d" % number + b"x" * 9_997)
    later = asyncio.get_running_loop().time() + 60
    pieces: list[bytes] = []
    while len(b"".join(pieces)) < 1_000_000:
        pieces.append(await stream.next(later))
    assert max(map(len, pieces)) < 80_000
    assert [int(b"".join(pieces)[at : at + 3]) for at in range(0, 1_000_000, 10_000)] == list(range(100))


async def test_many_workspaces_are_shown_whole(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    async with serving(database, server_redis, QUICK) as server:
        ada = await server.person()
        ids = {str(await add(owner, ada.id, f"w{number}", memo="x" * 2000)) for number in range(350)}
        async with server.dashboard(ada) as dashboard:
            assert {data["id"] for name, data in dashboard.heard if name == "workspace_updated"} == ids
            assert dashboard.heard[-1] == ("heartbeat", {}), "the end of what there is"
