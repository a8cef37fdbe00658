import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.drivers.base import InstanceSpec
from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef, WorkspaceId
from tests.lab.docker import Lab, lab
from tests.support import short_folder


@dataclass(frozen=True)
class JobUrls:
    archive_url: str
    meta_url: str
    store: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class FolderStore:
    """The part of an archive store that the driver needs, over a folder."""

    folder: Path

    def job_urls(self, key: ArchiveKey) -> JobUrls:
        return JobUrls(f"file://{self.folder}/{key}", f"file://{self.folder}/{key}.meta")


@pytest.fixture(scope="session", name="lab")
def _lab() -> Lab:
    return lab()


@pytest.fixture(scope="session")
def store() -> FolderStore:
    return FolderStore(short_folder())


@pytest.fixture(scope="session")
def options(lab: Lab) -> Iterator[DockerOptions]:
    with lab.installation() as made:
        yield made


@pytest.fixture(scope="session")
async def driver(options: DockerOptions, store: FolderStore) -> AsyncIterator[DockerDriver]:
    made = DockerDriver(options, store.job_urls)
    await made.prepare()
    yield made
    await made.close()


@dataclass
class Home:
    """A workspace with a volume, made by the driver."""

    driver: DockerDriver
    id: WorkspaceId
    volume: VolumeRef

    def spec(self, image_ref: str = "quick") -> InstanceSpec:
        return InstanceSpec(op_id=new_op(), image_ref=image_ref, volume=self.volume)

    async def start(self) -> str:
        """Its endpoint, once it runs."""
        await self.driver.instances.start(self.id, self.spec())
        endpoint = (await self.driver.instances.look(self.id)).endpoint
        assert endpoint is not None
        return endpoint

    async def remove(self) -> None:
        await self.driver.instances.remove(self.id)
        if (await self.driver.volumes.look(self.id)).exists:
            await self.driver.volumes.delete(self.id, self.volume)


def new_op() -> OpId:
    return OpId(uuid4())


def new_workspace() -> WorkspaceId:
    return WorkspaceId(UUID(int=uuid4().int))


async def make_home(driver: DockerDriver) -> Home:
    workspace_id, incarnation = new_workspace(), Incarnation(str(uuid4()))
    await driver.volumes.create(workspace_id, incarnation)
    return Home(driver, workspace_id, (await driver.volumes.look(workspace_id)).ref)


@pytest.fixture
async def home(driver: DockerDriver) -> AsyncIterator[Home]:
    made = await make_home(driver)
    yield made
    await made.remove()


def exists(lab: Lab, kind: str, name: str) -> bool:
    """Whether the engine has this container or volume; asked behind the driver's back."""
    path = f"/volumes/{name}" if kind == "volume" else f"/containers/{name}/json"
    status = lab.call("GET", path).status_code
    assert status in (200, 404), json.dumps({"kind": kind, "status": status})
    return status == 200
