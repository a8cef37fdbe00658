"""From a wish to a running workspace on Docker, beside `docker run` of the same image until its port answers.

Ours: desired_state RUNNING is committed as the API does it; the clock stops when phase RUNNING is committed. The real
coordinator runs with real PostgreSQL, Valkey and Docker. The peer makes a volume of its own, runs the container with
the same limits by the docker command and polls its port. The figure that matters is the difference.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg

from bench.report import Figure, report
from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db import migrate, reads, wishes
from codehub.db.pool import Connection, Pool, Role, connection, open_pool
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.base import Resources
from codehub.drivers.docker import DockerDriver
from codehub.embedded import DataDir, EmbeddedServers
from codehub.model.workspace import Desired, InstanceBackend, Operation, Phase, StorageBackend, UserId, WorkspaceId
from tests.db.wishing import set_desired
from tests.lab.docker import Lab, lab

ROUNDS = 9
NETWORK = "codehub-bench-wake"  # the peer's
OWNER = UserId(UUID(int=1))


async def made(pool: Pool) -> WorkspaceId:
    new = wishes.NewWorkspace(
        id=WorkspaceId(uuid4()),
        owner_user_id=OWNER,
        name="w",
        image_ref="quick",
        instance_backend=InstanceBackend.DOCKER,
        storage_backend=StorageBackend.DOCKER_VOLUME,
        standby_ttl_seconds=0,
        archive_ttl_seconds=0,
        desired_state=Desired.STANDBY,
    )
    async with connection(pool) as conn:
        return (await wishes.insert(conn, new)).id


async def reached(conn: Connection, it: WorkspaceId, phase: Phase) -> None:
    async with asyncio.timeout(60):
        while True:
            (row,) = await reads.by_ids(conn, [it])
            if row.status.phase is phase and row.status.operation is Operation.NONE:
                return
            await asyncio.sleep(0.005)


async def ours(pool: Pool, watching: Connection, it: WorkspaceId) -> float:
    """Milliseconds from the wish to the committed phase."""
    async with connection(pool) as conn:
        (row,) = await reads.by_ids(conn, [it])
        started = time.perf_counter()
        assert await set_desired(conn, Desired.RUNNING, was=row, asked_by="bench")
    await reached(watching, it, Phase.RUNNING)
    took = (time.perf_counter() - started) * 1000
    async with connection(pool) as conn:
        (row,) = await reads.by_ids(conn, [it])
        assert await set_desired(conn, Desired.STANDBY, was=row, asked_by="bench")
    await reached(watching, it, Phase.STANDBY)
    return took


@contextmanager
def network(engine: Lab) -> Iterator[None]:
    """The peer's: the engine may have no default one."""
    command = ["docker", "--host", engine.host, "network"]
    subprocess.run([*command, "create", NETWORK], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([*command, "rm", NETWORK], check=True, stdout=subprocess.DEVNULL)


def peer(engine: Lab) -> float:
    """Milliseconds of `docker run` until the port answers."""
    docker = ["docker", "--host", engine.host]
    name = f"bench-wake-{uuid4().hex[:8]}"
    options = ["--cpus", "2", "--memory", "4g", "--pids-limit", "1024", "--cap-drop", "ALL", "--read-only"]
    subprocess.run([*docker, "volume", "create", name], check=True, stdout=subprocess.DEVNULL)
    started = time.perf_counter()
    try:
        subprocess.run(
            [
                *docker,
                "run",
                "-d",
                "--name",
                name,
                "-v",
                f"{name}:/home/coder",
                "--network",
                NETWORK,
                *options,
                engine.workspace_image,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        told = subprocess.run([*docker, "inspect", name], check=True, stdout=subprocess.PIPE, text=True).stdout
        address = json.loads(told)[0]["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]
        asyncio.run(_answers(address))
        return (time.perf_counter() - started) * 1000
    finally:
        subprocess.run([*docker, "rm", "-f", name], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*docker, "volume", "rm", name], check=True, stdout=subprocess.DEVNULL)


async def _answers(address: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                reader, writer = await asyncio.open_connection(address, 8080)
                writer.write(b"GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
                if await reader.readline():
                    return
            except OSError:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def coordinated(folder: Path, engine: Lab, urls: tuple[str, str]) -> AsyncIterator[None]:
    store = ArchiveStore.open((folder / "archives").as_uri())
    await store.prepare()
    with engine.installation() as options:
        driver = DockerDriver(options, store.job_urls)
        await driver.prepare()
        infrastructure = Infrastructure(store, {InstanceBackend.DOCKER: driver.backend}, Resources())
        async with open_coordinator(Settings.load(), infrastructure, *urls) as coordinator:
            running = asyncio.create_task(coordinator.run())
            try:
                yield
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        await driver.close()


async def bench(folder: Path) -> None:
    engine = lab()
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data).running() as servers:
            assert servers.database_url is not None
            assert servers.redis_url is not None
            await asyncio.to_thread(migrate.upgrade, servers.database_url)
            async with (
                open_pool(servers.database_url, Role.API) as pool,
                await psycopg.AsyncConnection.connect(servers.database_url, autocommit=True) as watching,
                coordinated(folder, engine, (servers.database_url, servers.redis_url)),
            ):
                await watching.execute("INSERT INTO users (id, username) VALUES (%s, 'bench')", [OWNER])
                it = await made(pool)
                await reached(watching, it, Phase.STANDBY)
                await ours(pool, watching, it)  # the first one prepares networks and firewall
                mine, theirs = [], []
                with network(engine):
                    await asyncio.to_thread(peer, engine)
                    for _ in range(ROUNDS):
                        mine.append(await ours(pool, watching, it))
                        theirs.append(await asyncio.to_thread(peer, engine))
                report("wake", [Figure("docker", "ms", mine, theirs)])


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    folder.chmod(0o755)  # the server runs under another account when we are root
    try:
        asyncio.run(bench(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
