"""The process driver in the contract suite: folders and processes, reached behind its back by /proc and the disk."""

import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from codehub.drivers.archives import ArchiveStore, JobUrls
from codehub.drivers.base import Archives, Backend
from codehub.drivers.ide import AllowList
from codehub.drivers.process import Options, ProcessDriver
from codehub.model.names import parse_archive_key
from codehub.model.workspace import ArchiveKey, WorkspaceId
from tests.contract.harness import Harness, Images, Skill
from tests.drivers_process.processes import living_of, record_of
from tests.support import eventually, needs_sandbox, workspace_users

ALLOWED = AllowList.of(["test", "jupyterlab"])


class ProcessHarness:
    name = "process"
    images = Images(quick="test", missing="jupyterlab")
    skills = frozenset(Skill)

    def __init__(
        self, folder: Path, store: ArchiveStore, silent_port: int, sandbox: Literal["auto", "off"] = "auto"
    ) -> None:
        self.root = folder / "w"
        self.ides = folder / "ide"
        self.options = Options(root=self.root, users=workspace_users(), sandbox=sandbox)
        self.store = store
        self.archives: Archives = store
        self.silent_port = silent_port
        self.held: set[WorkspaceId] = set()
        self.driver = ProcessDriver.open(self.options, ALLOWED, self.ides, self.urls)
        self.backend: Backend = self.driver.backend

    def urls(self, key: ArchiveKey) -> JobUrls:
        if parse_archive_key(key).workspace_id not in self.held:
            return self.store.job_urls(key)
        options = {
            "endpoint": f"http://127.0.0.1:{self.silent_port}",
            "access_key_id": "nobody",
            "secret_access_key": "nothing",
            "region": "nowhere",
            "allow_http": True,
            "timeout_seconds": 600,
            "retry_seconds": 600,
        }
        return JobUrls(f"s3://bucket/{key}", f"s3://bucket/{key}.meta", options)

    def another(self) -> Backend:
        return ProcessDriver(self.driver._machine, ALLOWED, self.ides, self.urls).backend

    def home(self, workspace_id: WorkspaceId) -> Path:
        (home,) = (self.root / f"homes/ws-{workspace_id}-home").iterdir()
        return home

    async def write_home(self, workspace_id: WorkspaceId, files: Mapping[str, bytes]) -> None:
        home = self.home(workspace_id)
        owner = home.stat()
        for name, content in files.items():
            path = home / name
            for folder in reversed(path.relative_to(home).parents):
                if not (home / folder).exists():
                    (home / folder).mkdir()
                    os.chown(home / folder, owner.st_uid, owner.st_gid)
            path.write_bytes(content)
            os.chown(path, owner.st_uid, owner.st_gid)

    async def read_home(self, workspace_id: WorkspaceId) -> Mapping[str, bytes]:
        home = self.home(workspace_id)
        files = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(home)): path.read_bytes() for path in files}

    async def kill_instance(self, workspace_id: WorkspaceId) -> None:
        record = record_of(self.root / f"instances/ws-{workspace_id}")
        for pid in living_of(record):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not living_of(record), "the instance is dead")

    async def lose_volume(self, workspace_id: WorkspaceId) -> None:
        shutil.rmtree(self.root / f"homes/ws-{workspace_id}-home")

    async def instance_processes(self, workspace_id: WorkspaceId) -> int:
        folder = self.root / f"instances/ws-{workspace_id}"
        return len(living_of(record_of(folder))) if folder.exists() else 0

    async def make_jobs_long(self, workspace_id: WorkspaceId) -> None:
        """Its store is a port that takes connections and never answers."""
        self.held.add(workspace_id)

    async def clutter(self) -> None:
        for name in (
            "homes/notes", "homes/ws-1-home/a.b", f"homes/ws-{uuid4()}-home", f"homes/ws-{uuid4()}-home/unlabelled",
            f"homes/ws-{str(uuid4()).upper()}-home/x.0123456789abcdef", "instances/ws-", f"instances/ws-{uuid4()}",
            f"instances/ws-{uuid4()}-home", "jobs/ws-job-", f"jobs/ws-job-{uuid4()}", "trash/something/deep",
        ):  # fmt: skip
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for folder in ("homes", "instances", "jobs"):
            (self.root / folder / f"ws-{uuid4()}-home").write_text("a file\n")

    async def break_engine(self) -> None:
        """As when the disk is not mounted."""
        self.root.rename(self.root.with_name("elsewhere"))

    async def mend_engine(self) -> None:
        self.root.with_name("elsewhere").rename(self.root)


@dataclass
class SilentServer:
    """Takes connections and never answers."""

    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])


@asynccontextmanager
async def open_harness(folder: Path, store: ArchiveStore) -> AsyncIterator[Harness]:
    silent = SilentServer()
    harness = ProcessHarness(folder, store, silent.port)
    async with running(harness, silent):
        needs_sandbox(harness.driver)
        yield harness


@asynccontextmanager
async def running(harness: ProcessHarness, silent: SilentServer) -> AsyncIterator[None]:
    """Afterwards nothing of it runs."""
    try:
        yield
    finally:
        for workspace_id, jobs in (await harness.driver.jobs.observe()).items():
            for job in jobs:
                await harness.driver.jobs.remove(workspace_id, job.op_id)
        for workspace_id in await harness.driver.instances.observe():
            await harness.driver.instances.remove(workspace_id)
        harness.driver.close()
        silent.listener.close()
