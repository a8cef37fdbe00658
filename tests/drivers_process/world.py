"""A driver with workspaces on it, and a way to do things inside them."""

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from codehub.drivers.base import InstanceSpec, Resources
from codehub.drivers.ide import AllowList
from codehub.drivers.process import Options, ProcessDriver
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef, WorkspaceId
from tests.drivers_process.processes import Launched, living_of, record_of
from tests.support import workspace_users

ALLOWED = AllowList.of(["test", "jupyterlab"])


@dataclass(frozen=True)
class Urls:
    """A folder as store."""

    archive_url: str
    meta_url: str
    store: Mapping[str, object] = field(default_factory=dict)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over an endpoint `unix:/path`."""

    def __init__(self, endpoint: str) -> None:
        super().__init__("localhost", timeout=60)
        self.path = endpoint.removeprefix("unix:")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


@dataclass
class Workspace:
    """One that runs."""

    world: "World"
    id: WorkspaceId
    volume: VolumeRef
    endpoint: str

    def request(
        self, method: str, path: str, body: bytes | str | None = None, fields: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = UnixConnection(self.endpoint)
        try:
            connection.request(method, path, body, fields or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def run(self, command: str) -> str:
        """What a shell inside says."""
        status, content = self.request("POST", "/run", command)
        assert status == 200, content
        return str(json.loads(content)["output"])

    @property
    def home(self) -> Path:
        (home,) = (self.world.root / f"homes/ws-{self.id}-home").iterdir()
        return home

    @property
    def record(self) -> Launched:
        return record_of(self.world.root / f"instances/ws-{self.id}")

    def processes(self) -> set[int]:
        return living_of(self.record)


class World:
    def __init__(self, options: Options) -> None:
        self.options = replace(options, users=workspace_users())
        self.allowed = ALLOWED
        self.root = options.root
        self.ides = options.root.parent / "ide"
        self.archives = options.root.parent / "archives"
        self.driver = self.open()

    def open(self) -> ProcessDriver:
        """A driver that knows nothing but the folder."""
        return ProcessDriver.open(self.options, self.allowed, self.ides, self.urls)

    def urls(self, key: ArchiveKey) -> Urls:
        url = (self.archives / key).as_uri()
        return Urls(url, f"{url}.meta")

    async def create(self, workspace_id: WorkspaceId | None = None) -> tuple[WorkspaceId, VolumeRef]:
        workspace_id = workspace_id or WorkspaceId(uuid4())
        await self.driver.volumes.create(workspace_id, Incarnation(str(uuid4())))
        return workspace_id, (await self.driver.volumes.look(workspace_id)).ref

    async def start(self, resources: Resources | None = None, image_ref: str = "test") -> Workspace:
        workspace_id, volume = await self.create()
        return await self.start_on(workspace_id, volume, resources, image_ref)

    async def start_on(
        self,
        workspace_id: WorkspaceId,
        volume: VolumeRef,
        resources: Resources | None = None,
        image_ref: str = "test",
        *,
        safe_mode: bool = False,
    ) -> Workspace:
        spec = InstanceSpec(
            op_id=OpId(uuid4()),
            image_ref=image_ref,
            volume=volume,
            resources=resources or Resources(),
            safe_mode=safe_mode,
        )
        await self.driver.instances.start(workspace_id, spec)
        seen = await self.driver.instances.look(workspace_id)
        assert seen.endpoint is not None
        return Workspace(self, workspace_id, volume, seen.endpoint)

    async def close(self) -> None:
        for workspace_id, jobs in (await self.driver.jobs.observe()).items():
            for job in jobs:
                await self.driver.jobs.remove(workspace_id, job.op_id)
        for workspace_id in await self.driver.instances.observe():
            await self.driver.instances.remove(workspace_id)
        self.driver.close()
