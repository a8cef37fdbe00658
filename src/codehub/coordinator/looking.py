"""Looking: one listing per backend and tick, in the order jobs, volumes, instances.

A backend that cannot be looked at, or takes too long, has no listing: nothing is concluded about its workspaces, and
the others do not wait for it. What changed since the last listing is known without reading a row, so that a container
that died or a volume that vanished is noticed at the next tick, however many workspaces exist.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from codehub.drivers.base import Backend
from codehub.errors import DriverError
from codehub.model.observation import InstanceSeen, JobSeen, VolumeSeen
from codehub.model.workspace import InstanceBackend, WorkspaceId

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 5.0  # how long a tick waits for a backend's listing
_OUTAGE_SECONDS = 10.0  # a listing that took longer counts as an outage that is over
_LONGEST_SECONDS = 120.0  # drivers have time limits of their own; this is for one that forgot

_NO_INSTANCE = InstanceSeen(None)
_NO_VOLUME = VolumeSeen(exists=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """All that one backend showed."""

    jobs: Mapping[WorkspaceId, Sequence[JobSeen]]
    volumes: Mapping[WorkspaceId, VolumeSeen]
    instances: Mapping[WorkspaceId, InstanceSeen]
    busy: frozenset[WorkspaceId]  # had a call in flight when the look began: what was seen of them may be old
    after_outage: bool = False  # before it, the backend could not be looked at for a while

    def instance(self, workspace_id: WorkspaceId) -> InstanceSeen:
        return self.instances.get(workspace_id, _NO_INSTANCE)

    def volume(self, workspace_id: WorkspaceId) -> VolumeSeen:
        return self.volumes.get(workspace_id, _NO_VOLUME)

    def jobs_of(self, workspace_id: WorkspaceId) -> tuple[JobSeen, ...]:
        return tuple(self.jobs.get(workspace_id, ()))

    def differs(self, before: "Listing | None") -> set[WorkspaceId]:
        """Whatever is not as it was in the listing before; everything, if there was none."""
        if before is None:
            return {*self.jobs, *self.volumes, *self.instances}
        pairs: list[tuple[Mapping[WorkspaceId, object], Mapping[WorkspaceId, object]]] = [
            (self.jobs, before.jobs),
            (self.volumes, before.volumes),
            (self.instances, before.instances),
        ]
        changed: set[WorkspaceId] = set()
        for now, then in pairs:
            changed.update(identity for identity, seen in now.items() if then.get(identity) != seen)
            changed.update(identity for identity in then if identity not in now)
        return changed


class Lookout:
    """Looks at every backend, and remembers the last listing of each that could be trusted."""

    def __init__(self, backends: Mapping[InstanceBackend, Backend], on_late: Callable[[], None]) -> None:
        self._backends = backends
        self._on_late = on_late  # a listing that the tick did not wait for has arrived
        self._looks: dict[InstanceBackend, asyncio.Task[Listing | None]] = {}
        self._trusted: dict[InstanceBackend, Listing] = {}
        self._failed: set[InstanceBackend] = set()
        self.outages: dict[InstanceBackend, str] = {}  # why a backend could not be looked at

    async def look(self, busy: frozenset[WorkspaceId]) -> dict[InstanceBackend, Listing]:
        """The listings that there are now; a backend without one is left out."""
        begun = []  # only these are waited for: a backend that hangs costs the others one wait, not one per tick
        for name, backend in self._backends.items():
            if name not in self._looks:
                self._looks[name] = asyncio.create_task(self._list(name, backend, busy), name=f"look at {name}")
                begun.append(self._looks[name])
        if begun:
            await asyncio.wait(begun, timeout=PATIENCE_SECONDS)
        found: dict[InstanceBackend, Listing] = {}
        for name in list(self._looks):
            task = self._looks[name]
            if not task.done():
                if task in begun:
                    self._outage(name, f"No answer within {PATIENCE_SECONDS:g} s.")
                    task.add_done_callback(lambda _: self._on_late())
                continue
            del self._looks[name]
            listing = task.result()
            if listing is not None:
                found[name] = listing
        return found

    def changed(self, name: InstanceBackend, listing: Listing) -> set[WorkspaceId]:
        """What is not as it was in the last listing that was trusted."""
        return listing.differs(self._trusted.get(name))

    def trust(self, name: InstanceBackend, listing: Listing) -> None:
        """Go by this listing from now on."""
        self._trusted[name] = listing

    def listed(self) -> set[WorkspaceId]:
        """Whose containers or volumes there are; of a backend that is out, those that there were."""
        return {i for listing in self._trusted.values() for i in (*listing.volumes, *listing.instances)}

    def jobs(self) -> Mapping[InstanceBackend, Mapping[WorkspaceId, Sequence[JobSeen]]]:
        """Of each backend; of one that is out, those that there were."""
        return {name: listing.jobs for name, listing in self._trusted.items()}

    async def close(self) -> None:
        for task in self._looks.values():
            task.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def _list(self, name: InstanceBackend, backend: Backend, busy: frozenset[WorkspaceId]) -> Listing | None:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                jobs = await backend.jobs.observe()
                volumes = await backend.volumes.observe()
                instances = await backend.instances.observe()
        except DriverError as error:
            self._failed.add(name)
            self._outage(name, str(error))
            return None
        except Exception as error:  # a bug in one driver must not stop the others
            if name not in self.outages:
                log.exception("a driver could not be asked", backend=name)
            self._failed.add(name)
            self._outage(name, f"{type(error).__name__}: {error}")
            return None
        if self.outages.pop(name, None) is not None:
            log.info("a backend can be looked at again", backend=name)
        after_outage = name in self._failed or now() - began > _OUTAGE_SECONDS
        self._failed.discard(name)
        return Listing(jobs, volumes, instances, busy, after_outage)

    def _outage(self, name: InstanceBackend, cause: str) -> None:
        if name not in self.outages:
            log.error("a backend cannot be looked at; its workspaces are left alone", backend=name, cause=cause)
        self.outages[name] = cause
