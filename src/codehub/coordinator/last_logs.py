"""Instances whose last lines are kept when they are removed: who could not start it can still read why."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from codehub.drivers.base import Instances, InstanceSpec, InstanceUsage
from codehub.errors import DriverError, Unavailable
from codehub.model.observation import InstanceSeen
from codehub.model.workspace import WorkspaceId
from codehub.signals.last_logs import LINES

_SECONDS = 2.0  # nobody's stop waits longer for it

Keep = Callable[[WorkspaceId, str], Awaitable[None]]


class KeptLogs:
    """Implements drivers.base.Instances, by another one."""

    def __init__(self, instances: Instances, keep: Keep) -> None:
        self._instances = instances
        self._keep = keep

    async def observe(self) -> Mapping[WorkspaceId, InstanceSeen]:
        return await self._instances.observe()

    async def look(self, workspace_id: WorkspaceId) -> InstanceSeen:
        return await self._instances.look(workspace_id)

    async def start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        await self._instances.start(workspace_id, spec)

    async def remove(self, workspace_id: WorkspaceId) -> None:
        """What cannot be read or kept in time is lost: removing matters more."""
        try:
            async with asyncio.timeout(_SECONDS):
                text = await self._instances.logs(workspace_id, LINES)
                if text:
                    await self._keep(workspace_id, text)
        except (DriverError, Unavailable, TimeoutError, OSError):
            pass
        await self._instances.remove(workspace_id)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        return await self._instances.logs(workspace_id, lines)

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        return await self._instances.usage()

    def events(self) -> AsyncIterator[None]:
        return self._instances.events()
