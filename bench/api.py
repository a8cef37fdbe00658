"""GET /workspaces of 50 for 64 connections, beside a FastAPI handler that only returns a constant of the same size.

Each is one real uvicorn process, set up in the same way; the load is this process. Rounds alternate. The peer returns
a Python value and leaves the encoding to FastAPI, which is what one would write first. A second, harder one answers
with bytes that it has ready: no database, no login, no encoding. All connections ask for the list of one user, whose
reads are shared (db/sharing.py); `64-users` is with a user, a token and a list for each connection.
"""

import asyncio
import itertools
import json
import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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
SECRETS = [f"bench-{number}" for number in range(CONNECTIONS)]  # of tokens, each of a user's own

FILL = """
INSERT INTO workspaces (id, owner_user_id, name, description, image_ref, instance_backend, storage_backend,
                        home_store_key, standby_ttl_seconds, archive_ttl_seconds, phase, desired_state, conditions)
SELECT id, owner, 'workspace ' || n, 'what it is for', 'code-server', 'docker', 'docker-volume', 'ws-' || id || '-home',
       600, 1800, 'RUNNING', 'RUNNING', jsonb_object_agg(key, jsonb_build_object(
           'status', true, 'reason', 'ContainerRunning', 'message', 'It is there and answers.',
           'last_transition_time', '2026-01-02T03:04:05.678901+00:00'))
FROM (SELECT n, gen_random_uuid() AS id, users.id AS owner FROM users, generate_series(1, %s) AS n) AS made
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


async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> bytes:
    writer.write(f"GET /api/v1/workspaces HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


async def body_of(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        return await one(reader, writer, SECRETS[0])
    finally:
        writer.close()


async def load(port: int, secrets: Sequence[str]) -> tuple[float, float]:
    """Requests per second, and the 99th percentile in milliseconds."""
    until = time.perf_counter() + SECONDS
    took: list[float] = []

    async def client(secret: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        while (started := time.perf_counter()) < until:
            await one(reader, writer, secret)
            took.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(client(secrets[number % len(secrets)]) for number in range(CONNECTIONS)))
    took.sort()
    return len(took) / SECONDS, took[int(len(took) * 0.99)] * 1000


async def fill(conn: Connection) -> None:
    for secret in SECRETS:
        await conn.execute(
            "WITH made AS (INSERT INTO users (id, username) VALUES (gen_random_uuid(), %s) RETURNING id)"
            " INSERT INTO tokens (id, user_id, name, token_hash, scope)"
            " SELECT gen_random_uuid(), id, 'b', %s, 'read' FROM made",
            [secret, hash_of(secret)],
        )


async def measure(asked: dict[str, tuple[Served, Sequence[str]]]) -> None:
    rates: dict[str, list[float]] = {name: [] for name in asked}
    slowest: dict[str, list[float]] = {name: [] for name in asked}
    cpu: dict[str, list[float]] = {name: [] for name in asked}
    for server, secrets in asked.values():
        await load(server.port, secrets)  # warm
    for _ in range(ROUNDS):
        for name, (server, secrets) in asked.items():
            before = server.cpu_seconds()
            rate, p99 = await load(server.port, secrets)
            rates[name].append(rate)
            slowest[name].append(p99)
            cpu[name].append((server.cpu_seconds() - before) / (rate * SECONDS) * 1000)
    report(
        "api",
        [
            figure
            for ours, peer in itertools.product(("one-user", "64-users"), ("value", "ready-bytes"))
            for figure in (
                Figure(f"{ours}-beside-{peer}", "requests/s", rates[ours], rates[peer]),
                Figure(f"{ours}-beside-{peer}-p99", "ms", slowest[ours], slowest[peer]),
                Figure(f"{ours}-beside-{peer}-cpu", "ms/request", cpu[ours], cpu[peer]),
            )
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
                    await owner.execute(FILL, [WORKSPACES])
                with process(api, servers.database_url, servers.redis_url) as ours:
                    body = await body_of(ours.port)
                    sys.stdout.write(f"{len(body)} bytes, {len(json.loads(body)['items'])} workspaces\n")
                    with (
                        process(constant, body, encoded=True) as ready,
                        process(constant, body, encoded=False) as value,
                    ):
                        await measure(
                            {
                                "one-user": (ours, SECRETS[:1]),
                                "64-users": (ours, SECRETS),
                                "ready-bytes": (ready, SECRETS),
                                "value": (value, SECRETS),
                            }
                        )

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
