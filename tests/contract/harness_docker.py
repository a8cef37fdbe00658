"""The Docker driver in the contract suite: a real engine, reached behind the driver's back by its own API."""

import io
import socket
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from codehub.drivers.archives import ArchiveStore, JobUrls
from codehub.drivers.base import Archives, Backend
from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.drivers.docker import spec as bodies
from codehub.drivers.docker.options import Patience
from codehub.model.names import instance_name, parse_archive_key, volume_name
from codehub.model.workspace import ArchiveKey, WorkspaceId
from tests.contract.harness import Harness, Images, Skill
from tests.contract.s3 import silent_urls
from tests.lab.docker import LABEL, Lab, lab
from tests.lab.wire import Wire, wire_to_socket
from tests.support import eventually

UID = 1000


class DockerHarness:
    name = "docker"
    images = Images(quick="quick", missing="missing")
    skills = frozenset(Skill)

    def __init__(self, engine: Lab, options: DockerOptions, wire: Wire, store: ArchiveStore, silent: int) -> None:
        self.lab = engine
        self.options = options
        self.wire = wire
        self.store = store
        self.archives: Archives = store
        self.silent_port = silent
        self.held: set[WorkspaceId] = set()
        self.pids: dict[WorkspaceId, set[int]] = {}
        self.drivers: list[DockerDriver] = []
        self.backend: Backend = self.another()

    def another(self) -> Backend:
        self.drivers.append(DockerDriver(self.options, self.urls))
        return self.drivers[-1].backend

    def urls(self, key: ArchiveKey) -> JobUrls:
        if parse_archive_key(key).workspace_id not in self.held:
            return self.store.job_urls(key)
        return silent_urls(key, f"http://127.0.0.1:{self.silent_port}")

    async def write_home(self, workspace_id: WorkspaceId, files: Mapping[str, bytes]) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for folder in sorted({parent for name in files for parent in Path(name).parents if parent != Path()}):
                tar.addfile(_entry(str(folder), tarfile.DIRTYPE, 0o755))
            for name, content in files.items():
                tar.addfile(_entry(name, tarfile.REGTYPE, 0o644, len(content)), io.BytesIO(content))
        path = f"/containers/{bodies.anchor_name(workspace_id)}/archive"
        self.lab.call("PUT", path, buffer.getvalue(), path=bodies.HOME).raise_for_status()

    async def read_home(self, workspace_id: WorkspaceId) -> Mapping[str, bytes]:
        path = f"/containers/{bodies.anchor_name(workspace_id)}/archive"
        content = self.lab.call("GET", path, path=f"{bodies.HOME}/.").raise_for_status().content
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            files = {entry.name.removeprefix("./"): tar.extractfile(entry) for entry in tar if entry.isfile()}
            return {name: file.read() for name, file in files.items() if file is not None}

    async def kill_instance(self, workspace_id: WorkspaceId) -> None:
        name = instance_name(workspace_id)
        self.lab.call("POST", f"/containers/{name}/kill").raise_for_status()
        eventually(
            lambda: not self.lab.call("GET", f"/containers/{name}/json").json()["State"]["Running"], "it is dead"
        )

    async def lose_volume(self, workspace_id: WorkspaceId) -> None:
        """The engine gives it only when nothing refers to it: an accident that takes the containers too."""
        name = volume_name(workspace_id)
        users = self.lab.call("GET", "/containers/json", all=1, filters=f'{{"volume": ["{name}"]}}').json()
        for user in users:
            self.lab.call("DELETE", f"/containers/{user['Id']}", force=1).raise_for_status()
        self.lab.call("DELETE", f"/volumes/{name}").raise_for_status()

    async def instance_processes(self, workspace_id: WorkspaceId) -> int:
        """Those seen earlier are looked for one by one, since a container that is gone cannot be asked."""
        known = self.pids.setdefault(workspace_id, set())
        answer = self.lab.call("GET", f"/containers/{instance_name(workspace_id)}/top", ps_args="-eo pid")
        if answer.is_success:
            known |= {int(row[0]) for row in answer.json()["Processes"]}
        return sum(_lives(pid) for pid in known)

    async def make_jobs_long(self, workspace_id: WorkspaceId) -> None:
        """Its store is a port that takes connections and never answers."""
        self.held.add(workspace_id)

    async def clutter(self) -> None:
        ours = {bodies.LABEL_INSTALLATION: self.options.installation}
        stranger = str(uuid4())
        things = {
            f"ws-{uuid4()}": {},
            f"ws-not-an-id-{stranger[:8]}": ours | {bodies.LABEL_ROLE: bodies.WORKSPACE, bodies.LABEL_WORKSPACE: "x"},
            f"other-{stranger[:8]}": ours | {bodies.LABEL_ROLE: bodies.WORKSPACE, bodies.LABEL_WORKSPACE: stranger},
            f"ws-job-{stranger}": ours | {bodies.LABEL_ROLE: bodies.JOB, bodies.LABEL_OP: "x"},
        }
        for name, labels in things.items():
            body = {"Image": self.lab.workspace_image, "Labels": labels | {LABEL: self.options.installation}}
            self.lab.call("POST", "/containers/create", body, name=name).raise_for_status()
        for name in (f"ws-1-{stranger[:8]}-home", f"ws-{stranger.upper()}-home"):
            labels = ours | {LABEL: self.options.installation}
            self.lab.call("POST", "/volumes/create", {"Name": name, "Labels": labels}).raise_for_status()

    async def break_engine(self) -> None:
        await self.wire.cut()

    async def mend_engine(self) -> None:
        await self.wire.mend()

    async def close(self) -> None:
        for driver in self.drivers:
            await driver.close()
        for container in self.lab.call(
            "GET", "/containers/json", all=1, filters=f'{{"label": ["{LABEL}={self.options.installation}"]}}'
        ).json():
            self.lab.call("DELETE", f"/containers/{container['Id']}", force=1)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _entry(name: str, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.uid, entry.gid = kind, mode, size, UID, UID
    return entry


@asynccontextmanager
async def open_harness(folder: Path, store: ArchiveStore) -> AsyncIterator[Harness]:
    engine = lab()
    wire = wire_to_socket(folder / "engine.sock", Path(engine.host.removeprefix("unix://")))
    await wire.mend()
    patience = Patience(connect=1.0, look=5.0, ready=20.0)
    with (
        engine.installation(host=f"unix://{wire.path}", patience=patience) as options,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        harness = DockerHarness(engine, options, wire, store, int(silent.getsockname()[1]))
        try:
            yield harness
        finally:
            await harness.close()
            await wire.cut()
