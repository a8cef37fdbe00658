"""1,000 open dashboards on one API process while 200 changes a second are committed: how late each is seen.

The clock starts before the UPDATE is sent (so the commit itself is in the figure) and stops when a client has read the
event. 500 users have 4 workspaces and 2 dashboards each; which workspace changes is drawn at random. API and clients
are processes of their own; PostgreSQL → NOTIFY → the coordinator's listener → Redis → API is the real way.

The peer is the usual simple one, in the same application with the same login, pool and object: every client has a
subscription of its own at Redis, and reads the row from the database for each change it hears of.

What was learnt by profiling (CPU time of the API process): two fifths go into hearing Redis (its parser in Python), a
fifth into reading rows and making objects, the rest into writing, half of that in the middleware between us and the
server. The peer's one read per change and client costs twice the CPU of reading together, and is quicker by about the
pause between two reads. `events` takes further arguments:
the process that runs this file as something else (`api`, `clients`).
"""

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg
import uvloop
from fastapi import APIRouter, FastAPI
from fastapi.responses import StreamingResponse

from bench.report import Figure, report
from codehub.config import Settings
from codehub.coordinator.listen import EventListener
from codehub.db import listing, live, migrate
from codehub.db.pool import Connection, Role, connection, open_pool
from codehub.embedded import DataDir, EmbeddedServers
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.sessions import hash_of, new_secret
from codehub.services.workspaces.showing import encoded
from codehub.signals.connect import open_redis
from codehub.signals.events import RedisEvents
from codehub.web.app import create_app
from codehub.web.auth import CurrentActor
from codehub.web.context import Context, InContext
from codehub.web.live import Hub
from codehub.web.server import listen, serve, url_of
from codehub.web.stream import HEARTBEAT, event

USERS, WORKSPACES_EACH, DASHBOARDS_EACH = 500, 4, 2
CHANGES_PER_SECOND, SECONDS, ROUNDS = 200, 15, 3
READY_SECONDS = 60.0  # whoever is not connected by then sees nothing, and is missing in `seen`
_NAME = re.compile(rb'"name":"(\d+)"')

peer_router = APIRouter()


@peer_router.get("/peer")
async def peer_events(actor: CurrentActor, context: InContext) -> StreamingResponse:
    """A subscription and a read of its own for everything."""

    async def told() -> AsyncIterator[bytes]:
        # Of one user alone: the peer hears nothing that is not its own.
        channel = f"{context.settings.redis_channels.sse_prefix}{actor.user_id}"
        async with context.redis.pubsub() as channels:
            await channels.subscribe(channel)
            async with connection(context.pool) as conn:
                ids = [which for _, which, _ in await live.stamps(conn, [actor.user_id])]
                all_shown = await listing.by_ids(conn, ids)
            for shown in all_shown.values():
                yield event("workspace_updated", encoded(shown, context.terms.retention).json)
            yield HEARTBEAT
            async for message in channels.listen():
                if message["type"] != "message":
                    continue
                async with connection(context.pool) as conn:
                    found = await listing.by_id(conn, json.loads(message["data"])["id"])
                assert found is not None
                yield event("workspace_updated", encoded(found, context.terms.retention).json)

    return StreamingResponse(told(), media_type="text/event-stream")


async def serve_streams(database_url: str, redis_url: str) -> None:
    """The API process."""
    settings = Settings.load()
    async with (
        open_pool(database_url, Role.API, max_size=settings.database.pool_size) as pool,
        open_redis(f"{redis_url}?max_connections=20000") as redis,  # the library's limit is 100; the peer needs more
    ):
        context = Context(settings, pool, redis, lambda: {InstanceBackend.PROCESS: ["ide"]}, InstanceBackend.PROCESS)
        app = _app(context)
        with listen("127.0.0.1", 0) as listener:
            print(url_of(listener), flush=True)
            await asyncio.gather(app.state.hub.run(), serve(app, listener))


def _app(context: Context) -> FastAPI:
    app = create_app({}, Metrics(), context=context)
    app.include_router(peer_router, prefix="/api/v1")
    app.state.hub = Hub.over(context)
    return app


class Clients:
    """Every dashboard, in one process."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self.late: list[float] = []
        self.shown = 0

    async def run(self, tokens: Sequence[str]) -> None:
        room = asyncio.Semaphore(20)  # of those that connect at once
        watching = [asyncio.create_task(self._watch(token, room)) for token in tokens]
        until = time.monotonic() + READY_SECONDS
        while self.shown < len(tokens) and time.monotonic() < until:  # noqa: ASYNC110 - told by many tasks
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for each in watching:
            each.cancel()
        print(json.dumps(self.late), flush=True)

    async def _watch(self, token: str, room: asyncio.Semaphore) -> None:
        request = f"GET {self._address.path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        async with room:
            while True:
                reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
                writer.write(request)
                if b"200" in await reader.readline():
                    break
                writer.close()  # too busy: once more
            while line := await reader.readline():
                if b"heartbeat" in line:
                    break
            self.shown += 1
        while line := await reader.readline():
            now = time.monotonic_ns()
            found = _NAME.search(line)
            if found is not None:
                self.late.append((now - int(found[1])) / 1e6)


async def fill(conn: Connection) -> tuple[list[UUID], list[str]]:
    """Users with tokens, and their workspaces."""
    ids: list[UUID] = []
    secrets: list[str] = []
    async with conn.transaction(), conn.cursor() as cursor:
        for number in range(USERS):
            user, secret = uuid4(), new_secret()
            await cursor.execute("INSERT INTO users (id, username) VALUES (%s, %s)", [user, f"user-{number}"])
            await cursor.execute(
                "INSERT INTO tokens (id, user_id, name, token_hash, scope) VALUES (%s, %s, 'b', %s, 'read')",
                [uuid4(), user, hash_of(secret)],
            )
            secrets += [secret] * DASHBOARDS_EACH
            mine = [uuid4() for _ in range(WORKSPACES_EACH)]
            ids += mine
            await cursor.executemany(
                "INSERT INTO workspaces (id, owner_user_id, instance_backend, storage_backend, home_store_key, name,"
                " image_ref, standby_ttl_seconds, archive_ttl_seconds)"
                " VALUES (%s, %s, 'process', 'directory', %s, 'w', 'ide', 600, 1800)",
                [[which, user, f"ws-{which}-home"] for which in mine],
            )
    return ids, secrets


async def change(conn: Connection, ids: Sequence[UUID], seed: int) -> None:
    """At a steady pace, whatever the answers do."""
    drawn = random.Random(seed)
    started = time.monotonic()
    for number in range(CHANGES_PER_SECOND * SECONDS):
        await asyncio.sleep(max(0.0, started + number / CHANGES_PER_SECOND - time.monotonic()))
        await conn.execute(
            "UPDATE workspaces SET name = %s WHERE id = %s", [str(time.monotonic_ns()), drawn.choice(ids)]
        )


@contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.events", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _said(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise SystemExit("a process of the benchmark has ended")
    return line.strip()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(pid: int) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


async def measure(
    kind: str, seed: int, *, urls: tuple[str, str], conn: Connection, ids: Sequence[UUID], tokens: Path
) -> dict[str, float]:
    with process("api", *urls) as api:
        url = await asyncio.to_thread(_said, api) + f"api/v1/{kind}"
        with process("clients", url, str(tokens)) as clients:
            assert clients.stdin is not None
            assert await asyncio.to_thread(_said, clients) == "ready"
            await asyncio.sleep(2)  # whatever connecting left to do
            cpu = _cpu_seconds(api.pid)
            await change(conn, ids, seed)
            cpu = _cpu_seconds(api.pid) - cpu
            memory = _memory_mb(api.pid)
            await asyncio.sleep(2)  # whatever is still on its way
            clients.stdin.write("\n")
            clients.stdin.flush()
            late = json.loads(await asyncio.to_thread(_said, clients)) or [float("inf")] * 2
    expected = CHANGES_PER_SECOND * SECONDS * DASHBOARDS_EACH
    cuts = quantiles(late, n=1000)
    found = {
        "p50": median(late),
        "p99": cuts[989],
        "p999": cuts[998],
        "cpu": cpu / SECONDS,
        "memory": memory,
        "seen": len(late) / expected,
    }
    print(kind, {name: round(value, 3) for name, value in found.items()}, flush=True)
    return found


async def bench(folder: Path) -> None:
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data, durable=False).running() as servers:
            assert servers.database_url is not None
            assert servers.redis_url is not None
            urls = servers.database_url, servers.redis_url
            await asyncio.to_thread(migrate.upgrade, urls[0])
            async with (
                await psycopg.AsyncConnection.connect(urls[0], autocommit=True) as conn,
                open_redis(urls[1]) as redis,
            ):
                ids, secrets = await fill(conn)
                tokens = folder / "tokens"
                tokens.write_text("\n".join(secrets))
                channels = Settings.load().redis_channels
                told = RedisEvents(redis, sse_prefix=channels.sse_prefix, wake_prefix=channels.wake_prefix)
                listening = asyncio.create_task(EventListener(urls[0], told).run())
                ours, peer = [], []
                for seed in range(ROUNDS):
                    ours.append(await measure("events", seed, urls=urls, conn=conn, ids=ids, tokens=tokens))
                    peer.append(await measure("peer", seed, urls=urls, conn=conn, ids=ids, tokens=tokens))
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
    units = {"p50": "ms", "p99": "ms", "p999": "ms", "cpu": "cores", "memory": "MB", "seen": "of what was changed"}
    figures = [Figure(part, unit, [a[part] for a in ours], [b[part] for b in peer]) for part, unit in units.items()]
    report("events", figures)


def main() -> None:
    match sys.argv[1:]:
        case ["api", database_url, redis_url]:
            work = serve_streams(database_url, redis_url)
        case ["clients", url, tokens]:
            work = Clients(url).run(Path(tokens).read_text().split())
        case _:
            folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
            folder.chmod(0o755)  # the server runs under another account when we are root
            try:
                asyncio.run(bench(folder))
            finally:
                shutil.rmtree(folder)
            return
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


if __name__ == "__main__":
    main()
