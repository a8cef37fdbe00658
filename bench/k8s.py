"""Fifty workspaces at once on Kubernetes, beside `kubectl apply` of the same fifty Pods and claims until all are Ready.

Ours: fifty wishes are committed as the API does it; the clock stops when the last phase RUNNING is committed. The real
coordinator runs with real PostgreSQL, Valkey, S3 and the lab's cluster (tests/lab/k8s.sh up).
The peer's pods differ in one thing: they have no gate, so they start as soon as they are made.
Each round begins in an empty namespace with an empty table. Before that the requests to the API server are counted for
whole lives, without those listings that are made for all at once.

MANY=10 ROUNDS=1 make bench-k8s takes two minutes, and the whole a quarter of an hour.
"""

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from bench.report import Figure, report
from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db import migrate, reads, wishes
from codehub.db.pool import Pool, Role, connection, open_pool
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.base import Resources
from codehub.drivers.kubernetes import KubernetesDriver, KubernetesOptions
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.options import Patience
from codehub.embedded import DataDir, EmbeddedServers
from codehub.model.workspace import (
    Desired,
    Incarnation,
    InstanceBackend,
    Operation,
    OpId,
    Phase,
    StorageBackend,
    UserId,
    WorkspaceId,
)
from tests.contract.s3 import S3Server, machine_address
from tests.db.wishing import set_desired
from tests.lab.k8s import Lab, the_cluster

MANY, ROUNDS = int(os.environ.get("MANY", "50")), int(os.environ.get("ROUNDS", "3"))
LIVES = 5
OWNER = UserId(UUID(int=1))
SMALL = Resources(cpus=1.0, memory_bytes=128 << 20, pids=256)
LONGEST_SECONDS = 900.0


async def made(pool: Pool, count: int) -> list[WorkspaceId]:
    new = [
        wishes.NewWorkspace(
            id=WorkspaceId(uuid4()),
            owner_user_id=OWNER,
            name="w",
            image_ref="quick",
            instance_backend=InstanceBackend.K8S,
            storage_backend=StorageBackend.K8S_PVC,
            standby_ttl_seconds=0,
            archive_ttl_seconds=0,
        )
        for _ in range(count)
    ]
    async with connection(pool) as conn:
        return [(await wishes.insert(conn, one)).id for one in new]


async def reached(pool: Pool, them: list[WorkspaceId], phase: Phase) -> None:
    async with asyncio.timeout(LONGEST_SECONDS):
        while True:
            async with connection(pool) as conn:
                rows = await reads.by_ids(conn, them)
            assert all(row.status.phase is not Phase.ERROR for row in rows), [row.status for row in rows]
            if all(row.status.phase is phase and row.status.operation is Operation.NONE for row in rows):
                return
            await asyncio.sleep(0.05)


async def wish(pool: Pool, them: list[WorkspaceId], desired: Desired) -> None:
    async with connection(pool) as conn:
        for row in await reads.by_ids(conn, them):
            assert await set_desired(conn, desired, was=row, asked_by="bench")


async def ours(pool: Pool) -> float:
    """Seconds from the wishes to the last committed phase."""
    started = time.perf_counter()
    await reached(pool, await made(pool, MANY), Phase.RUNNING)
    return time.perf_counter() - started


def emptied(cluster: Lab, namespace: str) -> None:
    """Archiving them all would take minutes and measure nothing."""
    cluster.run("delete", "pods", "--all", "-n", namespace, "--grace-period=1", seconds=LONGEST_SECONDS)
    cluster.run("delete", "pvc", "--all", "-n", namespace, seconds=LONGEST_SECONDS)


def peer(cluster: Lab, options: KubernetesOptions) -> float:
    """Seconds of `kubectl apply` until all pods are Ready."""
    objects: list[dict[str, Any]] = []
    for _ in range(MANY):
        it = WorkspaceId(uuid4())
        pod = m.workspace_pod(
            options,
            it,
            "",
            op_id=OpId(uuid4()),
            image=options.images["quick"],
            gate="none",
            resources=SMALL,
            make_owner=True,
        )
        pod["spec"]["volumes"] = [one for one in pod["spec"]["volumes"] if one["name"] != "gate"]
        container = pod["spec"]["containers"][0]
        container["volumeMounts"] = [one for one in container["volumeMounts"] if one["name"] != "gate"]
        objects += [m.claim(options, it, Incarnation("bench")), pod]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    with cluster.namespace() as namespace:
        started = time.perf_counter()
        cluster.run("apply", "-n", namespace, "-f", "-", given=text)
        wait = ["wait", "pods", "--all", "--for=condition=Ready", f"--timeout={LONGEST_SECONDS:g}s"]
        cluster.run(*wait, "-n", namespace, seconds=LONGEST_SECONDS)
        took = time.perf_counter() - started
        emptied(cluster, namespace)
    return took


async def requests(pool: Pool, driver: KubernetesDriver) -> Counter[str]:
    """What whole lives ask of the API server: create, run, stand by, archive, run, delete."""
    before = driver.cluster.calls.copy()
    them = await made(pool, LIVES)
    await reached(pool, them, Phase.RUNNING)
    for desired in (Desired.STANDBY, Desired.ARCHIVED, Desired.RUNNING, Desired.DELETED):
        await wish(pool, them, desired)
        await reached(pool, them, Phase.DELETING if desired is Desired.DELETED else Phase(desired))
    return driver.cluster.calls - before


@asynccontextmanager
async def coordinated(
    cluster: Lab, server: S3Server, urls: tuple[str, str]
) -> AsyncIterator[tuple[KubernetesDriver, KubernetesOptions]]:
    store = ArchiveStore.open(server.url, s3=server.options)
    await store.prepare()
    with cluster.namespace() as namespace:
        patience = Patience(pending=LONGEST_SECONDS, ready=LONGEST_SECONDS)
        options = cluster.options(
            namespace=namespace, requested_cpus=0.01, requested_memory=16 << 20, patience=patience
        )
        driver = KubernetesDriver(options, store.job_urls)
        await driver.prepare()
        infrastructure = Infrastructure(store, {InstanceBackend.K8S: driver.backend}, SMALL)
        async with open_coordinator(Settings.load(), infrastructure, *urls) as coordinator:
            running = asyncio.create_task(coordinator.run())
            try:
                yield driver, options
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        await driver.close()
        await asyncio.to_thread(emptied, cluster, namespace)


async def bench(folder: Path, server: S3Server) -> None:
    cluster = the_cluster()
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data).running() as servers:
            assert servers.database_url is not None
            assert servers.redis_url is not None
            await asyncio.to_thread(migrate.upgrade, servers.database_url)
            urls = (servers.database_url, servers.redis_url)
            async with (
                open_pool(servers.database_url, Role.API) as pool,
                await psycopg.AsyncConnection.connect(servers.database_url, autocommit=True) as owner,
            ):
                await owner.execute("INSERT INTO users (id, username) VALUES (%s, 'bench')", [OWNER])
                async with coordinated(cluster, server, urls) as (driver, _):
                    counted = await requests(pool, driver)
                mine, theirs = [], []
                for _ in range(ROUNDS):
                    async with coordinated(cluster, server, urls) as (_, options):
                        theirs.append(await asyncio.to_thread(peer, cluster, options))
                        mine.append(await ours(pool))
                    await owner.execute("TRUNCATE workspaces CASCADE")
                    print(f"k8s-round: ours {mine[-1]:.1f} s, kubectl {theirs[-1]:.1f} s", flush=True)
                report("k8s", [Figure(f"{MANY}-at-once", "s", mine, theirs)])
                shared = {call: count for call, count in counted.items() if call.startswith(("LIST", "watch"))}
                own = {call: round(count / LIVES, 1) for call, count in counted.items() if call not in shared}
                print(f"k8s-requests: {sum(own.values()):.0f} for each life: {own}; listings for all: {shared}")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    folder.chmod(0o755)  # the server runs under another account when we are root
    (folder / "s3").mkdir()
    with machine_address() as address:
        server = S3Server(folder / "s3", address=address)
        server.start()
        try:
            asyncio.run(bench(folder, server))
        finally:
            server.close()
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
