"""A coordinator is killed at every kind of moment of a workspace's life, one after the other, and nothing is lost.

There are always two: whoever leads dies at the first point whose label nobody has died at yet, the other one takes
over, and a new one stands by. Cycle follows cycle until a whole one has passed without a new label. An ordinary run has
a sample of them: one before and one after what cannot be taken back.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.s3 import S3Server
from tests.crash.cycle import person
from tests.crash.herd import Coordinator, Nursery, herd_of
from tests.crash.site import Site, docker_site, process_site
from tests.lab.docker import lab

MOST_CYCLES = 40


async def passes(site: Site, nursery: Nursery, only: str = "") -> list[str]:
    """The labels, in the order in which somebody died at them."""
    used = site.folder / "used"
    used.touch()

    async def start() -> Coordinator:
        return await nursery.start(site.environment, site.folder / "log", used=str(used), only=only)

    async with herd_of(2, start) as herd:
        for _ in range(MOST_CYCLES):
            before = used.read_text()
            async with person(site) as somebody:
                await somebody.run()
            assert not herd.failures, herd.failures[0]
            if used.read_text() == before:
                break
        else:
            pytest.fail(f"there was always a new label: {used.read_text().splitlines()[-1]}")
    labels = used.read_text().splitlines()
    assert herd.deaths == len(labels)
    return labels


pytestmark = pytest.mark.timeout(1200)
Tell = Callable[[str], None]


SAMPLE = (
    r"^(after instances\.start|before jobs\.archive|after jobs\.archive|before volumes\.delete|after volumes\.delete)"
)


async def test_a_sample(folder: Path, database: str, server_redis: str, nursery: Nursery) -> None:
    async with process_site(folder, database, server_redis) as site:
        labels = await passes(site, nursery, only=SAMPLE)
    assert {" ".join(label.split()[:2]) for label in labels} == set(SAMPLE.strip("^()").replace("\\", "").split("|"))


@pytest.mark.exhaustive
async def test_processes(folder: Path, database: str, server_redis: str, nursery: Nursery, tell: Tell) -> None:
    async with process_site(folder, database, server_redis) as site:
        labels = await passes(site, nursery)
    tell(f"killed at {len(labels)} points")
    for part in (
        "instances.start",
        "volumes.create",
        "volumes.delete",
        "jobs.archive",
        "jobs.restore",
        "statuses.WRITE",
    ):
        assert any(f"before {part}" in label for label in labels), part


@pytest.mark.exhaustive
async def test_an_s3_store(
    folder: Path, database: str, server_redis: str, s3: S3Server, nursery: Nursery, tell: Tell
) -> None:
    async with process_site(folder, database, server_redis, s3=s3) as site:
        labels = await passes(site, nursery, only=r" archives\.")
    tell(f"killed at {len(labels)} points about the store")
    assert any("before archives.verify" in label for label in labels)


@pytest.mark.exhaustive(needs="a Docker engine")
async def test_containers(folder: Path, database: str, server_redis: str, nursery: Nursery, tell: Tell) -> None:
    """At the calls of the driver: the statements are the same as above."""
    engine = lab()
    async with docker_site(folder, database, server_redis, engine) as site:
        labels = await passes(site, nursery, only=r" (volumes|instances|jobs)\.")
    tell(f"killed at {len(labels)} points of the driver")
    assert any("before jobs.restore" in label for label in labels)
