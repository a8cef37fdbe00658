"""One coordinator, three kinds of backends. One that is out, or hangs, does not slow the others down."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from codehub.model.workspace import Desired, InstanceBackend, Phase, StorageBackend
from tests.contract.s3 import S3Server
from tests.crash.cycle import Person, person
from tests.crash.herd import Nursery
from tests.crash.site import Containers, Place, Processes, Site, open_site
from tests.k8s.life import coordinated
from tests.k8s.place import Pods, pods_in
from tests.lab.docker import lab as docker_lab
from tests.lab.k8s import Lab, ServerWire

pytestmark = pytest.mark.timeout(600)

MORE_SECONDS = 10.0  # of a round of two operations, beyond what it took when all was well


@dataclass
class Fleet:
    """All three, as one place; `parts` are where each person's workspace is."""

    parts: tuple[Processes, Containers, Pods]
    instance_backend = InstanceBackend.PROCESS
    storage_backend = StorageBackend.DIRECTORY

    @property
    def environment(self) -> Mapping[str, str]:
        processes, containers, pods = (part.environment for part in self.parts)
        return {**processes, **pods, **containers, "CODEHUB_BACKENDS": "process,docker,k8s"}

    def left_over(self) -> list[str]:
        return [each for part in self.parts for each in part.left_over()]

    def close(self) -> None:
        for part in self.parts:
            part.close()


@asynccontextmanager
async def people(site: Site, parts: tuple[Place, ...]) -> AsyncIterator[list[Person]]:
    async with person(site) as first:
        yield [Person(replace(site, place=part), first.api) for part in parts]


async def round_trip(them: list[Person]) -> float:
    """Seconds to stand by and to run again."""
    began = time.monotonic()
    for desired in (Desired.STANDBY, Desired.RUNNING):
        for one in them:
            await one.wish(desired)
        for one in them:
            await one.becomes(Phase(desired))
    return time.monotonic() - began


async def test_a_backend_that_is_out_does_not_slow_the_others(
    folder: Path, database: str, server_redis: str, nursery: Nursery, lab: Lab, s3: S3Server
) -> None:
    wire = ServerWire(lab, folder)
    await wire.mend()
    (folder / "d").mkdir(mode=0o755)
    with pods_in(lab, wire.kubeconfig) as pods:
        engine = docker_lab()
        fleet = Fleet((Processes(folder / "d", 9), Containers(engine, engine.host, pods.installation), pods))
        try:
            site = await open_site(folder, database, server_redis, fleet, s3, {})
            async with coordinated(site, nursery), people(site, fleet.parts) as them:
                for one in them:
                    await one.create()
                for one in them:
                    await one.becomes(Phase.RUNNING)
                    await one.write("kept", 1000)
                near, far = them[:2], them[2]
                well = await round_trip(near)

                await wire.cut()
                await far.wish(Desired.STANDBY)
                assert await round_trip(near) < well + MORE_SECONDS
                await wire.mend()
                await far.becomes(Phase.STANDBY)

                wire.silence()
                await far.wish(Desired.RUNNING)
                assert await round_trip(near) < well + MORE_SECONDS
                wire.speak()
                await far.becomes(Phase.RUNNING)

                for one in them:
                    assert await one.read("kept") == one.files["kept"]
                    await one.wish(Desired.DELETED)
                for one in them:
                    await one.until(
                        lambda row: row.wish.deleted_at is not None and row.status.phase is Phase.DELETING,
                        "it is in the trash",
                    )
        finally:
            fleet.close()
            await wire.cut()
