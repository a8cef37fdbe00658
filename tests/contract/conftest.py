"""The stores and backends that the contract suites run against. One that this machine lacks is skipped loudly.

None outlives this folder's tests: an S3 server that was used as they do keeps a processor busy.
"""

import importlib
import importlib.util
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from codehub.drivers.archives import ArchiveStore, Limits
from tests.contract.backends import Case
from tests.contract.harness import Harness, Opener
from tests.contract.s3 import S3Server, machine_address
from tests.support import short_folder, skip

BACKENDS = [
    name
    for name in ("memory", "process", "plain", "docker", "k8s")
    if importlib.util.find_spec(f"tests.contract.harness_{name}")
]
# The fake has a store of its own; every other backend is run with a folder and with a bucket where a store matters,
# but for pods, which see no folder of ours.
STORES = {"memory": ("memory",), "k8s": ("s3",)}
PAIRS = [f"{name}-{store}" for name in BACKENDS for store in STORES.get(name, ("folder", "s3"))]


@pytest.fixture(scope="package")
def s3_server() -> Iterator[S3Server]:
    """One server for all; a test that stops it must leave it running."""
    with _s3_server("127.0.0.1") as server:
        yield server


@pytest.fixture(scope="package")
def far_s3_server() -> Iterator[S3Server]:
    """One that is not on the loopback: containers reach it over their bridge, through the firewall."""
    with machine_address() as address, _s3_server(address) as server:
        yield server


@contextmanager
def _s3_server(address: str) -> Iterator[S3Server]:
    folder = short_folder()
    server = S3Server(folder, address=address)
    try:
        server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Harnesses:
    """Opens each pair of backend and store once, when it is first needed."""

    request: pytest.FixtureRequest
    stack: AsyncExitStack
    folder: Path
    opened: dict[str, Harness] = field(default_factory=dict)

    async def get(self, pair: str) -> Harness:
        if pair not in self.opened:
            backend, kind = pair.split("-")
            place = self.folder / pair
            place.mkdir(exist_ok=True)
            store = await self._store(backend, kind, place)
            (place / "engine").mkdir(exist_ok=True)
            opener: Opener = importlib.import_module(f"tests.contract.harness_{backend}").open_harness
            self.opened[pair] = await self.stack.enter_async_context(opener(place / "engine", store))
        return self.opened[pair]

    async def _store(self, backend: str, kind: str, place: Path) -> ArchiveStore:
        if kind == "s3":
            server: S3Server = self.request.getfixturevalue(
                "far_s3_server" if backend in ("docker", "k8s") else "s3_server"
            )
            store = ArchiveStore.open(server.url, prefix=f"{place.name}/", s3=server.options)
        else:
            store = ArchiveStore.open((place / "store").as_uri(), limits=Limits())
        await store.prepare()
        return store


@pytest.fixture(scope="package")
async def harnesses(request: pytest.FixtureRequest) -> AsyncIterator[Harnesses]:
    folder = short_folder()
    try:
        async with AsyncExitStack() as stack:
            yield Harnesses(request, stack, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=BACKENDS)
async def harness(request: pytest.FixtureRequest, harnesses: Harnesses) -> Harness:
    """Every backend once: for what has nothing to do with the store."""
    return await harnesses.get(f"{request.param}-{STORES.get(request.param, ('folder',))[0]}")


@pytest.fixture(params=PAIRS)
async def storing(request: pytest.FixtureRequest, harnesses: Harnesses) -> Harness:
    """Every backend with every store: for archiving and restoring."""
    return await harnesses.get(request.param)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*skills): skipped for a harness that lacks one of these skills")


async def _case(harness: Harness, request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    marks = request.node.iter_markers("needs")
    lacking = {skill for mark in marks for skill in mark.args} - harness.skills
    if lacking:
        skip(f"what the harness of {harness.name} cannot: {', '.join(sorted(skill.name for skill in lacking))}", "-")
    case = Case(harness)
    yield case
    await case.clean_up()


@pytest.fixture
async def case(harness: Harness, request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    """A workspace on every backend; nothing of it is left afterwards."""
    async for case in _case(harness, request):
        yield case


@pytest.fixture
async def other(harness: Harness, request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    """Another workspace beside `case`."""
    async for case in _case(harness, request):
        yield case


@pytest.fixture
async def storing_case(storing: Harness, request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    """A workspace on every backend with every store."""
    async for case in _case(storing, request):
        yield case
