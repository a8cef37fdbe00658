"""Volumes: homes as folders, looked after in threads. What a home is, and how it comes and goes, is in homes.py."""

from collections.abc import Mapping

from codehub.drivers.process import archived_homes
from codehub.drivers.process.home_processes import HomeProcesses
from codehub.drivers.process.homes import Home, Homes
from codehub.drivers.process.instances import is_busy, is_used
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.reserve import Reserve
from codehub.drivers.process.threads import Threads
from codehub.errors import Refused
from codehub.model.observation import VolumeSeen
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId


class Volumes:
    """Implements drivers.base.Volumes."""

    def __init__(
        self, layout: Layout, homes: Homes, reserve: Reserve, processes: HomeProcesses, threads: Threads
    ) -> None:
        self._layout = layout
        self._homes = homes
        self._reserve = reserve
        self._processes = processes
        self._run = threads.run

    async def observe(self) -> Mapping[WorkspaceId, VolumeSeen]:
        return await self._run(self._homes.list)

    async def look(self, workspace_id: WorkspaceId) -> VolumeSeen:
        return await self._run(self._homes.look, workspace_id)

    async def create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        await self._run(self._create, workspace_id, incarnation)

    async def mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        await self._run(self._mark_whole, workspace_id, volume)

    async def delete(self, workspace_id: WorkspaceId, volume: VolumeRef, *, archived: OpId | None = None) -> None:
        await self._run(self._delete, workspace_id, volume, archived)

    def _create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        self._reserve.check()
        self._homes.create(workspace_id, incarnation)

    def _mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        with self._layout.locked(str(workspace_id)):
            self._homes.mark_whole(workspace_id, volume)

    def _delete(self, workspace_id: WorkspaceId, volume: VolumeRef, archived: OpId | None) -> None:
        with self._layout.locked(str(workspace_id)):
            home = self._homes.find(workspace_id)
            if home is not None and home.is_named(volume):
                if is_used(self._layout, workspace_id):
                    raise Refused(f"The home of workspace {workspace_id} is in use by its instance.")
                if is_busy(self._layout, workspace_id):
                    raise Refused(f"The home of workspace {workspace_id} is in use by a storage job.")
                self._processes.end(home)
                if archived is not None and (why := self._more_than_archived(home, archived)):
                    archived_homes.keep(home, why)
                    raise Refused(f"The home of workspace {workspace_id} is kept. {why}")
                self._processes.check_unused(home)
            self._homes.delete(workspace_id, volume)

    def _more_than_archived(self, home: Home, archived: OpId) -> str | None:
        """Why its archive may lack something of it."""
        if (others := self._processes.others(home)) is not None:
            return others[0]
        return archived_homes.more_since(home, archived)
