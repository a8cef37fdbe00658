"""The infrastructure of a simulation: two backends, each with an engine of its own, and one archive store.

It is the fake that keeps the drivers' contract suite, with ears: whatever goes is told to whoever listens, at that
very moment. Accidents go past those ears, because they are nobody's decision.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Generic, TypeVar

from codehub.drivers.base import Backend
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.things import Instance, Job, Stored, Volume
from codehub.model.workspace import ArchiveKey, InstanceBackend, OpId, StorageBackend, Workspace, WorkspaceId

K = TypeVar("K")
V = TypeVar("V")

STORAGE = {
    InstanceBackend.PROCESS: StorageBackend.DIRECTORY,
    InstanceBackend.DOCKER: StorageBackend.DOCKER_VOLUME,
}


class Heard(dict[K, V], Generic[K, V]):
    """A dictionary that tells what is put into it and what is taken out."""

    def __init__(self) -> None:
        super().__init__()
        self.on_put: Callable[[K, V], None] = lambda _key, _value: None
        self.on_going: Callable[[K, V], None] = lambda _key, _value: None

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.on_put(key, value)

    def __delitem__(self, key: K) -> None:
        self.on_going(key, self[key])
        super().__delitem__(key)

    def pop(self, key: K, *default: V) -> V:  # type: ignore[override]  # one shape of the two
        if key in self:
            self.on_going(key, self[key])
        return super().pop(key, *default)

    def appear(self, key: K, value: V) -> None:
        """It is back, and nobody did it."""
        super().__setitem__(key, value)

    def vanish(self, key: K) -> None:
        """It is gone, and nobody did it."""
        super().pop(key, None)


class Surroundings:
    def __init__(self, clock: Callable[[], datetime], skews: Mapping[InstanceBackend, timedelta]) -> None:
        self.stored: Heard[ArchiveKey, Stored] = Heard()
        self.away: dict[ArchiveKey, Stored] = {}  # what nobody can see now, and will be back
        self.volumes: dict[InstanceBackend, Heard[WorkspaceId, Volume]] = {}
        self.instances: dict[InstanceBackend, Heard[WorkspaceId, Instance]] = {}
        self.jobs: dict[InstanceBackend, Heard[OpId, Job]] = {}
        self.worlds: dict[InstanceBackend, MemoryWorld] = {}
        counter = count(1)
        self.skews = dict(skews)
        for name in skews:
            self.volumes[name], self.instances[name], self.jobs[name] = Heard(), Heard(), Heard()
            self.worlds[name] = MemoryWorld(
                clock=lambda name=name: clock() + self.skews[name],  # type: ignore[misc]  # of a default
                auto_jobs=False,
                volumes=self.volumes[name],
                instances=self.instances[name],
                jobs=self.jobs[name],
                stored=self.stored,
                counter=counter,  # no two backends give the same address
            )
        self.store = MemoryWorld(clock=clock, stored=self.stored)

    @property
    def everything(self) -> list[MemoryWorld]:
        return [*self.worlds.values(), self.store]

    def of(self, row: Workspace) -> MemoryWorld:
        return self.worlds[row.instance_backend]

    def backends(self) -> dict[InstanceBackend, Backend]:
        return {name: world.backend() for name, world in self.worlds.items()}

    def lose_volume(self, row: Workspace) -> None:
        self.volumes[row.instance_backend].vanish(row.id)
        self.of(row).changed()

    def archive(self, key: ArchiveKey | None) -> Stored | None:
        """Wherever it is."""
        return None if key is None else self.stored.get(key) or self.away.get(key)

    def take_archives_away(self, keys: Iterable[ArchiveKey]) -> None:
        for key in keys:
            self.away[key] = self.stored[key]
            self.stored.vanish(key)

    def bring_archives_back(self) -> None:
        for key, stored in self.away.items():
            if key not in self.stored:
                self.stored.appear(key, stored)
        self.away.clear()

    def lose_archive(self, key: ArchiveKey) -> None:
        self.stored.vanish(key)
