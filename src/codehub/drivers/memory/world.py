"""The infrastructure that the fake drives: volumes, instances, jobs and archives, and what befalls them.

Everything is deterministic: uids and addresses are counted, the time is the clock's that it was given, and jobs advance
by steps, one at each look at them or only when told (`auto_jobs=False`). A home is a dictionary of files; `whole` is
False while it is only partly there. Drivers made from one world share it, as processes share one machine.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from codehub.drivers.base import Backend
from codehub.drivers.memory.archives import MemoryArchives
from codehub.drivers.memory.faults import Fault, Faults, Misbehaviour
from codehub.drivers.memory.instances import MemoryInstances
from codehub.drivers.memory.jobs import MemoryJobs, advance
from codehub.drivers.memory.things import Home, Instance, Job, Stored, Volume
from codehub.drivers.memory.volumes import MemoryVolumes
from codehub.errors import Refused
from codehub.model.observation import JobState, Life
from codehub.model.store_owner import StoreMarker
from codehub.model.workspace import ArchiveKey, OpId, VolumeRef, WorkspaceId


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class MemoryWorld:
    """Everything there is. Tests read and change it freely."""

    clock: Callable[[], datetime] = _now
    auto_jobs: bool = True
    allowed_images: frozenset[str] | None = None  # None: every image
    volumes: dict[WorkspaceId, Volume] = field(default_factory=dict)
    instances: dict[WorkspaceId, Instance] = field(default_factory=dict)
    jobs: dict[OpId, Job] = field(default_factory=dict)
    stored: dict[ArchiveKey, Stored] = field(default_factory=dict)
    store_marker: StoreMarker | None = None
    held: set[WorkspaceId] = field(default_factory=set)  # jobs of these do not advance
    faults: Faults = field(default_factory=Faults)
    counter: Iterator[int] = field(default_factory=lambda: count(1))
    listeners: dict[asyncio.Event, None] = field(default_factory=dict)  # in their order, which a set has not

    # -- drivers ----------------------------------------------------------------------------------------------------

    def backend(self) -> Backend:
        """Drivers that remember nothing by themselves; any number of them."""
        return Backend(MemoryInstances(self), MemoryVolumes(self), MemoryJobs(self))

    @property
    def archives(self) -> MemoryArchives:
        return MemoryArchives(self)

    # -- misbehaviour -----------------------------------------------------------------------------------------------

    def misbehave(
        self, verb: str, kind: Misbehaviour, *, workspace_id: WorkspaceId | None = None, times: int | None = None
    ) -> Fault:
        """Switch a misbehaviour on; `end` of what is returned switches it off."""
        return self.faults.add(Fault(verb, kind, workspace_id, times))

    def engine_out(self) -> list[Fault]:
        """An outage of the engine, not of the store."""
        return [self.misbehave(f"{part}.*", Misbehaviour.UNREACHABLE) for part in ("instances", "volumes", "jobs")]

    def engine_back(self, outage: list[Fault]) -> None:
        """It ends; event streams tell, as they do when they are connected again."""
        for fault in outage:
            fault.end()
        self.changed()

    def behave(self) -> None:
        """Switch everything off; slow calls go on."""
        self.faults.end_all()

    def land(self, most: int | None = None) -> int:
        """Let calls that hang land now."""
        return self.faults.land(most)

    # -- accidents --------------------------------------------------------------------------------------------------

    def lose_volume(self, workspace_id: WorkspaceId) -> None:
        self.volumes.pop(workspace_id, None)
        self.changed()

    def kill_instance(self, workspace_id: WorkspaceId) -> None:
        """It dies by itself; what is left of it stays."""
        self.instances[workspace_id].life = Life.DEAD
        self.changed()

    def evict_instance(self, workspace_id: WorkspaceId) -> None:
        """What it runs on ends it, to save itself."""
        self.instances[workspace_id].evicted = True
        self.kill_instance(workspace_id)

    def put_archive(self, key: ArchiveKey, home: Mapping[str, bytes]) -> None:
        """A complete archive, as a job would leave it."""
        self.stored[key] = Stored(dict(home), self.clock())

    def harm_archive(self, key: ArchiveKey, *, at_a_glance: bool = False) -> None:
        """Damage it so that reading it shows it, or already its size or its meta."""
        self.stored[key].damaged, self.stored[key].misfit = True, at_a_glance

    def lose_archive(self, key: ArchiveKey, what: str) -> None:
        """Take its "object" or its "meta" away."""
        stored = self.stored[key]
        stored.has_object, stored.has_meta = stored.has_object and what != "object", stored.has_meta and what != "meta"
        if not stored.has_object and not stored.has_meta:
            del self.stored[key]

    # -- time passing -----------------------------------------------------------------------------------------------

    def run_jobs(self, op_id: OpId | None = None) -> None:
        """One step of every running job, or of one."""
        for job in self.jobs.values():
            if job.state is JobState.RUNNING and op_id in (None, job.op_id) and job.workspace_id not in self.held:
                advance(self, job)

    def changed(self) -> None:
        """Tell every event stream."""
        for event in self.listeners:
            event.set()

    # -- what every driver checks -----------------------------------------------------------------------------------

    def volume(self, workspace_id: WorkspaceId, ref: VolumeRef) -> Volume:
        """Exactly the volume that was named, or Refused."""
        volume = self.volumes.get(workspace_id)
        if volume is None:
            raise Refused(f"There is no volume of {workspace_id}.")
        if volume.incarnation != ref.incarnation or ref.uid not in (None, volume.uid):
            raise Refused(f"The volume of {workspace_id} is another one: {volume.incarnation} {volume.uid}.")
        return volume

    def home(self, workspace_id: WorkspaceId) -> Home:
        """The files of the volume that is there."""
        return self.volumes[workspace_id].home
