"""Instances whose last lines are kept when they are removed or replaced: who could not start it can still read why."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from codehub.drivers.base import Instances, InstanceSpec, InstanceUsage
from codehub.errors import DriverError, Unavailable
from codehub.model.observation import InstanceSeen, Life
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
        """A dead instance is replaced by that, and what it wrote goes with it."""
        await self._keep_lines(workspace_id, only_dead=True)
        await self._instances.start(workspace_id, spec)

    async def remove(self, workspace_id: WorkspaceId) -> None:
        await self._keep_lines(workspace_id)
        await self._instances.remove(workspace_id)

    async def _keep_lines(self, workspace_id: WorkspaceId, *, only_dead: bool = False) -> None:
        """What cannot be read or kept in time is lost: what comes next matters more."""
        with contextlib.suppress(DriverError, Unavailable, TimeoutError, OSError):
            async with asyncio.timeout(_SECONDS):
                if only_dead and (await self._instances.look(workspace_id)).life is not Life.DEAD:
                    return
                text = await self._instances.logs(workspace_id, LINES)
                if text:
                    await self._keep(workspace_id, text)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        return await self._instances.logs(workspace_id, lines)

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        return await self._instances.usage()

    def events(self) -> AsyncIterator[None]:
        return self._instances.events()
