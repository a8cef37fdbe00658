"""A workspace's whole life on a real cluster with a real S3 server, with leaders that die and a server that is slow.

Create, run, write, stand by, archive, restore, read what was written, delete (tests/crash/cycle.py). Nothing is lost or
stuck, and no ERROR is seen at any time.
"""

import signal
from pathlib import Path

import pytest

from codehub.model.workspace import Operation
from tests.contract.s3 import S3Server
from tests.crash.herd import Nursery
from tests.crash.site import Site
from tests.k8s.life import EVERY, coordinated
from tests.k8s.place import k8s_site, pods_in
from tests.lab.k8s import Lab, ServerWire

pytestmark = pytest.mark.timeout(1200)


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


async def test_a_server_that_is_slow(
    folder: Path, database: str, server_redis: str, nursery: Nursery, lab: Lab, s3: S3Server
) -> None:
    wire = ServerWire(lab, folder)
    await wire.mend()
    wire.delay = 0.4
    with pods_in(lab, wire.kubeconfig) as place:
        async with (
            k8s_site(folder, database, server_redis, place, s3) as site,
            coordinated(site, nursery) as (somebody, _),
        ):
            await somebody.run()
    await wire.cut()
