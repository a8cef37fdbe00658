import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contract.s3 import S3Server, machine_address
from tests.crash.herd import Nursery, open_nursery
from tests.crash.site import Site
from tests.k8s.place import Pods, k8s_site, pods_in
from tests.lab.k8s import Lab, lab
from tests.support import short_folder


@pytest.fixture(scope="session", name="lab")
def _lab() -> Lab:
    return lab()


@pytest.fixture(scope="session")
async def nursery() -> AsyncIterator[Nursery]:
    async with open_nursery() as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    made = short_folder()
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def s3(lab: Lab) -> Iterator[S3Server]:
    """On an address that pods reach."""
    folder = short_folder()
    with machine_address() as address:
        server = S3Server(folder, address=address)
        server.start()
        yield server
        server.close()
    shutil.rmtree(folder)


@pytest.fixture
def place(lab: Lab) -> Iterator[Pods]:
    with pods_in(lab) as made:
        yield made


@pytest.fixture
async def site(folder: Path, database: str, server_redis: str, place: Pods, s3: S3Server) -> AsyncIterator[Site]:
    async with k8s_site(folder, database, server_redis, place, s3) as made:
        yield made
