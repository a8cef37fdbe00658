"""One installation that coordinators work on: a database, a Redis, a store and a backend, all real."""

import io
import os
import signal
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import httpx
import psycopg
import zstandard

from codehub.drivers.archives import ArchiveStore
from codehub.drivers.docker import spec as bodies
from codehub.drivers.process.layout import HOMES_SIGN, Layout
from codehub.model.observation import ArchiveSeen
from codehub.model.workspace import ArchiveKey, InstanceBackend, StorageBackend, WorkspaceId
from tests.contract.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.crash.writes import keep_account
from tests.db.support import add_user
from tests.drivers_process.processes import remove_groups
from tests.embedded.support import processes_at
from tests.lab.docker import Lab, new_installation

IMAGE = "test"
USERS_EACH = 64


class Place(Protocol):
    """Where workspaces run."""

    instance_backend: InstanceBackend
    storage_backend: StorageBackend

    @property
    def environment(self) -> Mapping[str, str]: ...

    def left_over(self) -> list[str]:
        """What is there of any workspace: processes, containers, volumes, jobs."""
        ...

    def close(self) -> None: ...


@dataclass
class Processes:
    """The process driver, under user ids that no other test run has at the same time."""

    data_dir: Path
    number: int
    instance_backend = InstanceBackend.PROCESS
    storage_backend = StorageBackend.DIRECTORY

    @property
    def users(self) -> range:
        first = 1_800_000_000 + (os.getpid() % 10_000) * 16 * USERS_EACH + self.number * USERS_EACH
        return range(first, first + USERS_EACH)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "CODEHUB_BACKENDS": "process",
            "CODEHUB_IMAGES": IMAGE,
            "PROCESS_USERS": f"{self.users.start}-{self.users.stop - 1}",
            "PROCESS_NETWORK": "none",
        }

    def left_over(self) -> list[str]:
        layout = Layout(self.data_dir / "workspaces")
        folders = (layout.homes, layout.instances, layout.jobs, layout.sockets)
        found = [str(path) for folder in folders for path in folder.iterdir() if path.name != HOMES_SIGN]
        return found + [f"process: {each}" for each in self.processes()]

    def processes(self) -> list[str]:
        """Everything alive that belongs to a workspace or a job of this installation."""
        found = list(processes_at(self.data_dir))
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if entry.stat().st_uid in self.users:
                    found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
        return found

    def close(self) -> None:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if entry.stat().st_uid in self.users:
                    os.kill(int(entry.name), signal.SIGKILL)
        remove_groups(Layout(self.data_dir / "workspaces"))


@dataclass
class Containers:
    """The docker driver, as an installation of its own."""

    lab: Lab
    host: str
    installation: str = field(default_factory=new_installation)
    instance_backend = InstanceBackend.DOCKER
    storage_backend = StorageBackend.DOCKER_VOLUME

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "CODEHUB_BACKENDS": "docker",
            "CODEHUB_IMAGES": f"{IMAGE}={self.lab.workspace_image}",
            "CODEHUB_INSTALLATION": self.installation,
            "DOCKER_HOST": self.host,
            "DOCKER_JOB_IMAGE": self.lab.job_image,
            "DOCKER_GUARD_IMAGE": self.lab.guard_image,
            "DOCKER_PULL": "false",
        }

    def left_over(self) -> list[str]:
        label = f'{{"label": ["{bodies.LABEL_INSTALLATION}={self.installation}"]}}'
        listed = self.lab.call("GET", "/containers/json", all=1, filters=label).json()
        # A guard that was cut off goes when the next one is put up, minutes later.
        containers = [each for each in listed if each["Labels"].get(bodies.LABEL_ROLE) != bodies.GUARD]
        volumes = self.lab.call("GET", "/volumes", filters=label).json()["Volumes"] or []
        return [str(each["Names"]) for each in containers] + [each["Name"] for each in volumes]

    def close(self) -> None:
        self.lab.sweep(self.lab.options(self.installation))


@dataclass
class Site:
    """Everything a coordinator is told."""

    folder: Path
    database_url: str
    redis_url: str
    place: Place
    store: ArchiveStore
    store_environment: Mapping[str, str]
    s3: S3Server | None = None
    intervals: Mapping[str, str] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        return self.folder / "d"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "CODEHUB_DATA_DIR": str(self.data_dir),
            "CODEHUB_LOG_FORMAT": "json",
            "COORDINATOR_IDLE_INTERVAL": "0.5",
            "COORDINATOR_ACTIVE_INTERVAL": "0.1",
            "COORDINATOR_TTL_INTERVAL": "0.5",
            "COORDINATOR_GC_INTERVAL": "0.5",
            "GC_ORPHAN_DELAY_SECONDS": "1",
            **self.place.environment,
            **self.store_environment,
            **self.intervals,
        }

    async def archived(self, key: ArchiveKey) -> Mapping[str, bytes]:
        """The files of a complete archive, read without any help of ours but for where it is."""
        assert await self.store.verify(key) is ArchiveSeen.VERIFIED
        if self.s3 is not None:
            packed = self.s3.request("GET", f"archives/{key}").raise_for_status().content
        else:
            packed = (self.data_dir / "archives" / "archives" / key).read_bytes()
        content = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            files = {entry.name.removeprefix("./"): tar.extractfile(entry) for entry in tar if entry.isfile()}
            return {name: file.read() for name, file in files.items() if file is not None}

    async def stored(self, workspace_id: WorkspaceId) -> list[str]:
        """Every archive of this workspace, whole or not."""
        keys = [found.key async for page in self.store.found() for found in page]
        return [key for key in keys if key.startswith(str(workspace_id))]

    def unfinished(self) -> list[str]:
        if self.s3 is not None:
            return self.s3.uploads()
        return [path.name for path in (self.data_dir / "archives").rglob("*#*")]


@asynccontextmanager
async def process_site(
    folder: Path,
    database_url: str,
    redis_url: str,
    *,
    number: int = 0,
    s3: S3Server | None = None,
    intervals: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Site]:
    data_dir = folder / "d"
    data_dir.mkdir(mode=0o755)
    with ExitStack() as stack:
        place = Processes(data_dir, number)
        stack.callback(place.close)
        yield await open_site(folder, database_url, redis_url, place, s3, intervals)


@asynccontextmanager
async def docker_site(
    folder: Path, database_url: str, redis_url: str, lab: Lab, *, host: str | None = None
) -> AsyncIterator[Site]:
    (folder / "d").mkdir(mode=0o755)
    with ExitStack() as stack:
        place = Containers(lab, host or lab.host)
        stack.callback(place.close)
        yield await open_site(folder, database_url, redis_url, place, None, {})


async def open_site(
    folder: Path,
    database_url: str,
    redis_url: str,
    place: Place,
    s3: S3Server | None,
    intervals: Mapping[str, str],
) -> Site:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as owner:
        await add_user(owner)
        await keep_account(owner)
    environment: dict[str, str] = {}
    if s3 is None:
        store = ArchiveStore.open((folder / "d" / "archives").as_uri())
    else:
        store = ArchiveStore.open(s3.url, s3=s3.options)
        environment = {
            "ARCHIVE_URL": s3.url,
            "S3_ENDPOINT": s3.endpoint,
            "S3_ACCESS_KEY_ID": ACCESS_KEY,
            "S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
    return Site(folder, database_url, redis_url, place, store, environment, s3, intervals)


async def ask(endpoint: str, method: str, path: str, body: bytes = b"") -> bytes:
    """One request to a running workspace."""
    unix = endpoint.removeprefix("unix:") if endpoint.startswith("unix:") else None
    host = "localhost" if unix else endpoint
    transport = httpx.AsyncHTTPTransport(uds=unix)
    async with httpx.AsyncClient(transport=transport, timeout=20, trust_env=False) as client:
        return (await client.request(method, f"http://{host}{path}", content=body)).raise_for_status().content
