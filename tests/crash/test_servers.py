"""Servers die in the middle of a workspace's life: it ends as it should, later. No outage is anybody's ERROR."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codehub.model.workspace import Desired, Operation, Phase
from codehub.signals.connect import open_redis
from tests.contract.s3 import S3Server
from tests.crash.cycle import Person, person
from tests.crash.herd import Coordinator, Nursery, herd_of
from tests.crash.servers import own_server
from tests.crash.site import Site, docker_site, process_site
from tests.lab.docker import lab
from tests.lab.wire import wire_to_socket
from tests.support import eventually_async

MIDDLES = (Operation.STARTING, Operation.STOPPING, Operation.ARCHIVING, Operation.RESTORING)
SIZE = 20_000_000  # a home whose archive takes long enough to be caught in the middle

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(600)]

Disturb = Callable[[Operation], Awaitable[None]]


@asynccontextmanager
async def living(site: Site, nursery: Nursery, disturb: Disturb) -> AsyncIterator[Person]:
    """A person whose coordinators are left alone, and whose servers are not: once in each of these operations."""

    async def start() -> Coordinator:
        return await nursery.start(site.environment, site.folder / "log")

    async with herd_of(2, start) as herd, person(site) as somebody:
        somebody.disturb, somebody.middles = disturb, set(MIDDLES)
        yield somebody
        assert herd.deaths == 0


async def told(site: Site, words: str, already: int) -> None:
    """Until the coordinator has noticed once more."""

    async def said() -> bool:
        return times(site, words) > already

    await eventually_async(said, f"it says that {words}", 60)


def times(site: Site, words: str) -> int:
    return (site.folder / "log").read_text(errors="replace").count(words)


async def test_postgresql_is_killed_and_started_again(folder: Path, server_redis: str, nursery: Nursery) -> None:
    async with own_server(postgres=True) as server:

        async def disturb(_: Operation) -> None:
            await server.kill()
            await server.start()

        async with process_site(folder, server.url, server_redis) as site, living(site, nursery, disturb) as somebody:
            await somebody.run(SIZE)
            assert not somebody.middles & {Operation.STARTING, Operation.ARCHIVING, Operation.RESTORING}


async def test_redis_is_flushed_and_gone_most_of_the_time(folder: Path, database: str, nursery: Nursery) -> None:
    async with own_server(postgres=False) as server:

        async def flush(_: Operation) -> None:
            async with open_redis(server.url) as client:
                await client.flushall()

        async with process_site(folder, database, server.url) as site, living(site, nursery, flush) as somebody:
            await somebody.create()
            await somebody.becomes(Phase.RUNNING)
            await somebody.write("notes/first.bin", SIZE)
            await server.kill()
            somebody.middles.clear()
            await somebody.get(Desired.STANDBY)
            await somebody.get(Desired.ARCHIVED)
            await somebody.get(Desired.RUNNING)
            assert await somebody.read("notes/first.bin") == somebody.files["notes/first.bin"]
            await server.start()  # or GC, which keeps its timers there, would wait for ever
            somebody.middles = set(MIDDLES)
            await somebody.delete()


async def test_the_s3_server_is_killed_and_started_again(
    folder: Path, database: str, server_redis: str, s3: S3Server, nursery: Nursery
) -> None:
    async def disturb(operation: Operation) -> None:
        await asyncio.to_thread(s3.restart)

    async with (
        process_site(folder, database, server_redis, s3=s3) as site,
        living(site, nursery, disturb) as somebody,
    ):
        await somebody.run(SIZE)
        assert not somebody.middles & {Operation.ARCHIVING, Operation.RESTORING}


async def test_the_engine_is_cut_off(folder: Path, database: str, server_redis: str, nursery: Nursery) -> None:
    engine = lab()
    wire = wire_to_socket(folder / "engine.sock", Path(engine.host.removeprefix("unix://")))
    await wire.mend()
    out = "a backend cannot be looked at"
    async with docker_site(folder, database, server_redis, engine, host=f"unix://{wire.path}") as site:

        async def disturb(_: Operation) -> None:
            already = times(site, out)
            await wire.cut()
            await told(site, out, already)
            await wire.mend()

        async with living(site, nursery, disturb) as somebody:
            await somebody.run(SIZE)
            assert not somebody.middles & {Operation.STARTING, Operation.ARCHIVING, Operation.RESTORING}
    await wire.cut()
