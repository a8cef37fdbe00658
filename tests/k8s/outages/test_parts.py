"""Parts of the cluster that go away while a workspace lives, and come back: nothing is lost or stuck, nothing is ERROR.

What is done here is done to everybody: these tests run alone.
"""

import asyncio
import time

import pytest

from codehub.model.workspace import Desired, Operation, Phase
from tests.crash.herd import Nursery
from tests.crash.site import Site
from tests.k8s.life import EVERY, answers, comes_back, coordinated, told
from tests.k8s.place import Pods
from tests.lab.k8s import Lab

pytestmark = pytest.mark.timeout(1200)

ETCD_SECONDS = 60.0
USUALLY_SPARE = "100Mi"  # tests/lab/k8s.sh
LOW_MEMORY = "The node ended it to save itself: The node was low on resource: memory"


@pytest.mark.parametrize("part", ["kubelet", "apiserver"])
async def test_a_part_is_restarted_in_every_operation(site: Site, nursery: Nursery, lab: Lab, part: str) -> None:
    async def restart(operation: Operation) -> None:
        await asyncio.to_thread(lab.part, "kill", part)
        await asyncio.sleep(2)  # long enough to be noticed: calls fail meanwhile
        await asyncio.to_thread(lab.part, "start", part)

    async with coordinated(site, nursery) as (somebody, _):
        somebody.middles, somebody.disturb = set(EVERY), restart
        await somebody.run()
    answers(lab)


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


async def test_a_node_that_runs_out_of_memory(site: Site, nursery: Nursery, lab: Lab, place: Pods) -> None:
    """It evicts what runs there, takes it again when it has memory again, and no ERROR is seen meanwhile."""
    async with coordinated(site, nursery) as (somebody, _):

        async def pressed() -> None:
            await asyncio.to_thread(lab.spare_memory, "99%")
            await told(somebody, LOW_MEMORY)
            await asyncio.to_thread(lab.spare_memory, USUALLY_SPARE)

        try:
            await comes_back(somebody, place, pressed, LOW_MEMORY)
        finally:
            await asyncio.to_thread(lab.spare_memory, USUALLY_SPARE)
    answers(lab)
