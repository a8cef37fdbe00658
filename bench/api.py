"""GET /workspaces of 50 for 64 connections, beside a FastAPI handler that only returns a constant of the same size.

Each is one real uvicorn process, set up in the same way; the load is this process. Rounds alternate. The peer answers
with bytes that it has ready: no database, no login, no encoding. A second peer returns the same as a Python value and
leaves the encoding to FastAPI, which is what one would write first.
"""

import asyncio
import json
import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import uvloop
from fastapi import FastAPI, Response

from bench.report import Figure, report
from codehub.config import Settings
from codehub.db import migrate
from codehub.db.pool import API_TIMEOUTS, Connection, Role, connection, open_pool
from codehub.embedded import DataDir, EmbeddedServers
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.sessions import hash_of
from codehub.signals.connect import open_redis
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.server import listen, serve

CONNECTIONS, SECONDS, ROUNDS, WORKSPACES = 64, 4.0, 5, 50
SECRET = "bench"  # of a token
USER = "00000000-0000-0000-0000-000000000001"

FILL = """
INSERT INTO workspaces (id, owner_user_id, name, description, image_ref, instance_backend, storage_backend,
                        home_store_key, standby_ttl_seconds, archive_ttl_seconds, phase, desired_state, conditions)
SELECT id, owner, 'workspace ' || n, 'what it is for', 'code-server', 'docker', 'docker-volume', 'ws-' || id || '-home',
       600, 1800, 'RUNNING', 'RUNNING', jsonb_object_agg(key, jsonb_build_object(
           'status', true, 'reason', 'ContainerRunning', 'message', 'It is there and answers.',
           'last_transition_time', '2026-01-02T03:04:05.678901+00:00'))
FROM (SELECT n, gen_random_uuid() AS id, %s::uuid AS owner FROM generate_series(1, %s) AS n) AS made
CROSS JOIN unnest(ARRAY['storage.volume_ready', 'storage.archive_ready', 'infra.container_ready', 'policy.healthy'])
    AS key
GROUP BY n, id, owner
"""


def api(listener: socket.socket, database_url: str, redis_url: str) -> None:
    async def run() -> None:
        async with (
            open_pool(database_url, Role.API, timeouts=API_TIMEOUTS) as pool,
            open_redis(redis_url) as redis,
        ):
            images = {InstanceBackend.DOCKER: ["code-server"]}
            context = Context(Settings.load(), pool, redis, lambda: images, InstanceBackend.DOCKER)
            await serve(create_app({}, Metrics(), context=context), listener)

    uvloop.run(run())


def constant(listener: socket.socket, body: bytes, *, encoded: bool) -> None:
    app = FastAPI()
    value = json.loads(body)

    async def ready() -> Response:
        return Response(body, media_type="application/json")

    async def plain() -> object:
        return value

    app.add_api_route("/api/v1/workspaces", ready if encoded else plain, response_model=None)
    uvloop.run(serve(app, listener))


@dataclass(frozen=True)
class Served:
    """One of the servers."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """What it has used so far: what other programs do on this machine changes it least."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def process(target: object, *arguments: object, **more: object) -> Iterator[Served]:
    """A server in a process of its own."""
    listener = listen("127.0.0.1", 0)
    child = multiprocessing.get_context("fork").Process(target=target, args=(listener, *arguments), kwargs=more)  # type: ignore[arg-type]
    child.start()
    port = listener.getsockname()[1]
    listener.close()
    try:
        assert child.pid is not None
        yield Served(port, child.pid)
    finally:
        child.terminate()
        child.join(20)


REQUEST = f"GET /api/v1/workspaces HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {SECRET}\r\n\r\n".encode()


async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


async def body_of(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        return await one(reader, writer)
    finally:
        writer.close()


async def load(port: int) -> tuple[float, float]:
    """Requests per second, and the 99th percentile in milliseconds."""
    until = time.perf_counter() + SECONDS
    took: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        while (started := time.perf_counter()) < until:
            await one(reader, writer)
            took.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    took.sort()
    return len(took) / SECONDS, took[int(len(took) * 0.99)] * 1000


async def fill(conn: Connection) -> None:
    await conn.execute("INSERT INTO users (id, username) VALUES (%s, 'bench')", [USER])
    await conn.execute(
        "INSERT INTO tokens (id, user_id, name, token_hash, scope) VALUES (gen_random_uuid(), %s, 'b', %s, 'read')",
        [USER, hash_of(SECRET)],
    )


async def measure(servers: dict[str, Served]) -> None:
    rates: dict[str, list[float]] = {name: [] for name in servers}
    slowest: dict[str, list[float]] = {name: [] for name in servers}
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    for server in servers.values():
        await load(server.port)  # warm
    for _ in range(ROUNDS):
        for name, server in servers.items():
            before = server.cpu_seconds()
            rate, p99 = await load(server.port)
            rates[name].append(rate)
            slowest[name].append(p99)
            cpu[name].append((server.cpu_seconds() - before) / (rate * SECONDS) * 1000)
    report(
        "api",
        [
            Figure("workspaces-of-50", "requests/s", rates["api"], rates["constant"]),
            Figure("workspaces-of-50-p99", "ms", slowest["api"], slowest["constant"]),
            Figure("workspaces-of-50-cpu", "ms/request", cpu["api"], cpu["constant"]),
            Figure("workspaces-of-50-beside-a-value", "requests/s", rates["api"], rates["value"]),
        ],
    )


def bench(folder: Path) -> None:
    with DataDir.open(folder / "d") as data:

        async def run() -> None:
            async with EmbeddedServers(data).running() as servers:
                assert servers.database_url is not None
                await asyncio.to_thread(migrate.upgrade, servers.database_url)
                async with open_pool(servers.database_url, Role.API) as pool, connection(pool) as conn:
                    await fill(conn)
                async with await psycopg.AsyncConnection.connect(servers.database_url, autocommit=True) as owner:
                    await owner.execute(FILL, [USER, WORKSPACES])
                with process(api, servers.database_url, servers.redis_url) as ours:
                    body = await body_of(ours.port)
                    sys.stdout.write(f"{len(body)} bytes, {len(json.loads(body)['items'])} workspaces\n")
                    with (
                        process(constant, body, encoded=True) as theirs,
                        process(constant, body, encoded=False) as value,
                    ):
                        await measure({"api": ours, "constant": theirs, "value": value})

        uvloop.run(run())


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    folder.chmod(0o755)  # the server runs under another account when we are root
    try:
        bench(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
