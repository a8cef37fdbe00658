"""A workspace's whole life on a real cluster with a real S3 server, and what goes wrong on the way.

Create, run, write, stand by, archive, restore, read what was written, delete (tests/crash/cycle.py). In each of its
operations something is taken away, and given back; nothing is lost or stuck, and no ERROR is seen at any time.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codehub.model.workspace import Desired, Operation, Phase
from tests.contract.s3 import S3Server
from tests.crash.cycle import Person, person
from tests.crash.herd import Coordinator, Herd, Nursery, herd_of
from tests.crash.site import Site
from tests.k8s.place import Pods, k8s_site, pods_in
from tests.lab.k8s import Lab, ServerRelay
from tests.support import eventually, eventually_async

pytestmark = pytest.mark.timeout(1200)

EVERY = {
    Operation.PROVISIONING,
    Operation.STARTING,
    Operation.STOPPING,
    Operation.ARCHIVING,
    Operation.RESTORING,
}
ETCD_SECONDS = 60.0


@asynccontextmanager
async def coordinated(site: Site, nursery: Nursery, size: int = 1) -> AsyncIterator[tuple[Person, Herd]]:
    async def start() -> Coordinator:
        return await nursery.start(site.environment, site.folder / "log")

    async with herd_of(size, start) as herd, person(site) as somebody:
        yield somebody, herd


async def test_a_whole_life(site: Site, nursery: Nursery) -> None:
    async with coordinated(site, nursery) as (somebody, _):
        await somebody.run()


async def test_the_leader_is_killed_in_every_operation(site: Site, nursery: Nursery) -> None:
    async with coordinated(site, nursery, size=2) as (somebody, herd):

        async def kill(operation: Operation) -> None:
            for each in list(herd.members):
                each.signal(signal.SIGKILL)

        somebody.middles, somebody.disturb = set(EVERY), kill
        await somebody.run()
        assert herd.deaths >= len(EVERY)


@pytest.mark.parametrize("part", ["kubelet", "apiserver"])
async def test_a_part_is_restarted_in_every_operation(site: Site, nursery: Nursery, lab: Lab, part: str) -> None:
    async def restart(operation: Operation) -> None:
        await asyncio.to_thread(lab.part, "kill", part)
        await asyncio.sleep(2)
        await asyncio.to_thread(lab.part, "start", part)

    async with coordinated(site, nursery) as (somebody, _):
        somebody.middles, somebody.disturb = set(EVERY), restart
        await somebody.run()
    answers(lab)


async def test_a_server_that_is_slow(
    folder: Path, database: str, server_redis: str, nursery: Nursery, lab: Lab, s3: S3Server
) -> None:
    relay = ServerRelay(lab, folder)
    await relay.open()
    relay.delay = 0.4
    with pods_in(lab, relay.kubeconfig) as place:
        async with (
            k8s_site(folder, database, server_redis, place, s3) as site,
            coordinated(site, nursery) as (somebody, _),
        ):
            await somebody.run()
    await relay.cut()


async def test_etcd_is_gone_for_a_minute(site: Site, nursery: Nursery, lab: Lab) -> None:
    async with coordinated(site, nursery) as (somebody, _):
        await somebody.create()
        await somebody.becomes(Phase.RUNNING)
        await somebody.write("kept", 100_000)
        await somebody.wish(Desired.ARCHIVED)
        await asyncio.to_thread(lab.part, "kill", "etcd")
        try:
            until = time.monotonic() + ETCD_SECONDS
            while time.monotonic() < until:
                await somebody.look()  # asserts that there is no ERROR
                await asyncio.sleep(0.5)
        finally:
            await asyncio.to_thread(lab.part, "start", "etcd")
        await somebody.becomes(Phase.ARCHIVED)
        await somebody.get(Desired.RUNNING)
        assert await somebody.read("kept") == somebody.files["kept"]
        await somebody.delete()
    answers(lab)


async def test_a_pod_that_is_evicted_comes_back(site: Site, nursery: Nursery, lab: Lab, place: Pods) -> None:
    async with coordinated(site, nursery) as (somebody, _):
        await somebody.create()
        await somebody.becomes(Phase.RUNNING)
        await somebody.write("kept", 100_000)
        before = place.pod()
        assert before is not None
        name = before["metadata"]["name"]
        body = json.dumps({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name}})
        path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/eviction"
        await asyncio.to_thread(lab.run, "create", "--raw", path, "-f", "-", given=body)

        async def another_runs() -> bool:
            await somebody.look()
            now = place.pod()
            return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]

        await eventually_async(another_runs, "another pod runs", 120)
        assert await somebody.read("kept") == somebody.files["kept"]
        await somebody.delete()


def answers(lab: Lab) -> None:
    """The next test finds the cluster well."""
    eventually(lambda: lab.run("get", "--raw", "/readyz", check=False) == "ok", "the API server answers", 120)
    eventually(lambda: " Ready " in lab.run("get", "nodes", check=False), "the node is ready", 120)
