"""The fake in the contract suite: it must keep every promise when no misbehaviour is switched on."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from codehub.drivers.archives import ArchiveStore
from codehub.drivers.base import Archives, Backend
from codehub.drivers.memory import Fault, MemoryWorld
from codehub.drivers.memory.things import Volume
from codehub.model.observation import Life
from codehub.model.workspace import UNLABELLED, WorkspaceId
from tests.contract.harness import Harness, Images, Skill


@dataclass
class MemoryHarness:
    world: MemoryWorld = field(default_factory=lambda: MemoryWorld(allowed_images=frozenset({"quick"})))
    name: str = "memory"
    images: Images = field(default_factory=lambda: Images(quick="quick", missing="missing"))
    skills: frozenset[Skill] = frozenset(Skill)
    _faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.backend: Backend = self.world.backend()
        self.archives: Archives = self.world.archives

    def another(self) -> Backend:
        return self.world.backend()

    async def write_home(self, workspace_id: WorkspaceId, files: Mapping[str, bytes]) -> None:
        self.world.home(workspace_id).update(files)

    async def read_home(self, workspace_id: WorkspaceId) -> Mapping[str, bytes]:
        return dict(self.world.home(workspace_id))

    async def kill_instance(self, workspace_id: WorkspaceId) -> None:
        self.world.kill_instance(workspace_id)

    async def lose_volume(self, workspace_id: WorkspaceId) -> None:
        self.world.lose_volume(workspace_id)

    async def instance_processes(self, workspace_id: WorkspaceId) -> int:
        instance = self.world.instances.get(workspace_id)
        return 1 if instance is not None and instance.life is not Life.DEAD else 0

    async def make_jobs_long(self, workspace_id: WorkspaceId) -> None:
        self.world.held.add(workspace_id)

    async def clutter(self) -> None:
        self.world.volumes[WorkspaceId(uuid4())] = Volume(UNLABELLED, "")

    async def break_engine(self) -> None:
        self._faults = self.world.engine_out()

    async def mend_engine(self) -> None:
        self.world.engine_back(self._faults)


@asynccontextmanager
async def open_harness(folder: Path, store: ArchiveStore) -> AsyncIterator[Harness]:
    """Neither folder nor store is used: it has a store of its own."""
    yield MemoryHarness()
