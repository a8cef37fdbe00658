"""Volumes of the fake."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from codehub.drivers.memory.faults import Misbehaviour
from codehub.drivers.memory.things import Instance, Job, Volume
from codehub.errors import ActionFailed, Refused
from codehub.model.observation import VolumeSeen
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId

if TYPE_CHECKING:
    from codehub.drivers.memory.world import MemoryWorld

NONE = VolumeSeen(False, confirmed=True)


class MemoryVolumes:
    """Implements drivers.base.Volumes."""

    def __init__(self, world: "MemoryWorld") -> None:
        self._world = world

    async def observe(self) -> Mapping[WorkspaceId, VolumeSeen]:
        def effect() -> Mapping[WorkspaceId, VolumeSeen]:
            hidden = self._world.faults.hides("volumes.observe")
            return {id_: _seen(volume) for id_, volume in self._world.volumes.items() if not hidden(id_)}

        return await self._world.faults.call("volumes.observe", None, effect, {})

    async def look(self, workspace_id: WorkspaceId) -> VolumeSeen:
        def effect() -> VolumeSeen:
            volume = self._world.volumes.get(workspace_id)
            return _seen(volume) if volume is not None else NONE

        return await self._world.faults.call("volumes.look", workspace_id, effect, NONE)

    async def create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        def effect() -> None:
            there = self._world.volumes.get(workspace_id)
            if there is None:
                self._world.volumes[workspace_id] = Volume(incarnation, f"uid-{next(self._world.counter)}")
                self._world.changed()
            elif there.incarnation != incarnation:
                raise Refused(f"Another volume of {workspace_id} is there: {there.incarnation}.")

        await self._world.faults.call("volumes.create", workspace_id, effect, None)

    async def mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        def effect() -> None:
            self._world.volume(workspace_id, volume).marked = True
            self._world.changed()

        await self._world.faults.call("volumes.mark_whole", workspace_id, effect, None)

    async def delete(
        self,
        workspace_id: WorkspaceId,
        volume: VolumeRef,
        *,
        archived: OpId | None = None,  # noqa: ARG002 - who else has a volume is not seen from here
    ) -> None:
        def effect() -> None:
            if workspace_id not in self._world.volumes:
                return
            there = self._world.volume(workspace_id, volume)
            users: list[Instance | Job] = [*self._world.instances.values(), *self._world.jobs.values()]
            if any(user.volume is there for user in users):
                raise Refused(f"The volume of {workspace_id} is in use.")
            there.marked = False
            if self._world.faults.strikes("volumes.delete", workspace_id, Misbehaviour.HALF) is not None:
                names = sorted(there.home)
                there.whole, there.home = False, {name: there.home[name] for name in names[: len(names) // 2]}
                raise ActionFailed("It stopped half way, as it was told to.")
            del self._world.volumes[workspace_id]
            self._world.changed()

        await self._world.faults.call("volumes.delete", workspace_id, effect, None)


def _seen(volume: Volume) -> VolumeSeen:
    return VolumeSeen(True, volume.incarnation, volume.uid, whole=volume.marked)
