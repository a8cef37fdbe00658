"""Instances, jobs and volumes of no workspace: listed, and removed when an administrator asks (SPEC section 9).

What the database does not know may be another installation's, or somebody's home that a restored backup has forgotten.
So nothing is removed by itself, and an implausible share stops it as it stops GC. The backends are listed before the
rows are read: whatever is made meanwhile has a row first. The row is looked for once more, and leadership confirmed,
before each removal; jobs go first, then the instance, then the volume, by the incarnation that was listed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from codehub.coordinator.ports import ArchiveRecords, Leadership
from codehub.drivers.base import Backend
from codehub.errors import DriverError
from codehub.model.gc import GcRules
from codehub.model.names import instance_name, volume_name
from codehub.model.observation import JobSeen, VolumeSeen
from codehub.model.workspace import InstanceBackend, WorkspaceId

log = structlog.get_logger(__name__)

_PAGE = 1000
_MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Orphan:
    """What one backend has of a workspace that the database does not know."""

    backend: InstanceBackend
    id: WorkspaceId
    jobs: Sequence[JobSeen]
    has_instance: bool
    volume: VolumeSeen | None

    @property
    def names(self) -> list[str]:
        instance = [f"{self.backend}: {instance_name(self.id)}"] if self.has_instance or self.jobs else []
        return instance + ([f"{self.backend}: {volume_name(self.id)}"] if self.volume else [])


class Orphans:
    """One at a time, when somebody asks."""

    def __init__(
        self,
        records: ArchiveRecords,
        backends: Mapping[InstanceBackend, Backend],
        leadership: Leadership,
        rules: GcRules,
    ) -> None:
        self._records = records
        self._backends = backends
        self._leadership = leadership
        self._rules = rules

    async def collect(self, *, dry_run: bool, override: bool) -> dict[str, Any]:
        """The report, in the words of GC's. Raises Unreachable, with nothing done, when a backend cannot be listed."""
        at = await self._records.now()
        found: list[Orphan] = []
        for name, backend in self._backends.items():
            found += await _listed(name, backend)
        known = await self._known({each.id for each in found})
        orphans = [each for each in found if each.id not in known]
        stopped = self._implausible(len(orphans), len(found)) if not override else None
        deleted = spared = failed = 0
        if not dry_run and not stopped:
            for each in orphans:
                if not self._leadership.is_fresh():
                    stopped = "Leadership is not certain; ask again for the rest."
                    break
                if await self._known([each.id]):
                    spared += 1
                elif await self._removed(each):
                    deleted += 1
                else:
                    failed += 1
        names = [name for each in orphans for name in each.names]
        return {
            "at": at.isoformat(),
            "found": len(found),
            "known": len(known),
            "orphans": len(orphans),
            "due_count": len(names),
            "due": names[:_MOST_NAMED],
            "stopped": stopped,
            "deleted": deleted,
            "spared": spared,
            "failed": failed,
        }

    def _implausible(self, orphans: int, found: int) -> str | None:
        if orphans <= self._rules.implausible_count or orphans <= found * self._rules.implausible_share:
            return None
        return (
            f"{orphans} of {found} things in the backends belong to no workspace, which is implausible. "
            "Check that the database is the right one; an administrator can override."
        )

    async def _known(self, ids: Collection[WorkspaceId]) -> set[WorkspaceId]:
        asked, found = sorted(ids), set[WorkspaceId]()
        for start in range(0, len(asked), _PAGE):
            found.update(row.id for row in await self._records.known_of(asked[start : start + _PAGE], ()))
        return found

    async def _removed(self, orphan: Orphan) -> bool:
        backend = self._backends[orphan.backend]
        try:
            for job in orphan.jobs:
                await backend.jobs.remove(orphan.id, job.op_id)
            if orphan.has_instance:
                await backend.instances.remove(orphan.id)
            if orphan.volume is not None:
                await backend.volumes.delete(orphan.id, orphan.volume.ref)
        except DriverError as error:
            log.warning("an orphan could not be removed", workspace_id=str(orphan.id), cause=str(error))
            return False
        log.info("an orphan was removed", names=orphan.names)
        return True


async def _listed(name: InstanceBackend, backend: Backend) -> list[Orphan]:
    """Everything that the backend has, orphan or not."""
    jobs, volumes, instances = (
        await backend.jobs.observe(),
        await backend.volumes.observe(),
        await backend.instances.observe(),
    )
    return [
        Orphan(
            name,
            identity,
            tuple(jobs.get(identity, ())),
            identity in instances and instances[identity].exists,
            volumes.get(identity),
        )
        for identity in sorted({*jobs, *volumes, *instances})
    ]
