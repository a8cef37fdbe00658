"""Instances of the fake."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from codehub.drivers.base import InstanceSpec, InstanceUsage
from codehub.drivers.memory.faults import Misbehaviour
from codehub.drivers.memory.things import Instance
from codehub.errors import ActionFailed, Refused, TerminalError
from codehub.model.observation import InstanceSeen, JobState, Life
from codehub.model.workspace import ErrorReason, WorkspaceId

if TYPE_CHECKING:
    from codehub.drivers.memory.world import MemoryWorld

NONE = InstanceSeen(None)
VERB = "instances.start"


class MemoryInstances:
    """Implements drivers.base.Instances."""

    def __init__(self, world: "MemoryWorld") -> None:
        self._world = world

    async def observe(self) -> Mapping[WorkspaceId, InstanceSeen]:
        def effect() -> Mapping[WorkspaceId, InstanceSeen]:
            hidden = self._world.faults.hides("instances.observe")
            return {id_: _seen(instance) for id_, instance in self._world.instances.items() if not hidden(id_)}

        return await self._world.faults.call("instances.observe", None, effect, {})

    async def look(self, workspace_id: WorkspaceId) -> InstanceSeen:
        def effect() -> InstanceSeen:
            instance = self._world.instances.get(workspace_id)
            return _seen(instance) if instance is not None else NONE

        return await self._world.faults.call("instances.look", workspace_id, effect, NONE)

    async def start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        await self._world.faults.call(VERB, workspace_id, lambda: self._start(workspace_id, spec), None)

    def _start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        volume = self._world.volume(workspace_id, spec.volume)
        there = self._world.instances.get(workspace_id)
        if there is not None and there.life is not Life.DEAD:
            if there.life is Life.ALIVE:
                raise ActionFailed("The instance lives and does not take traffic.")
            return
        allowed = self._world.allowed_images
        missing = self._world.faults.strikes(VERB, workspace_id, Misbehaviour.IMAGE_MISSING)
        if missing is not None or (allowed is not None and spec.image_ref not in allowed):
            raise TerminalError(ErrorReason.IMAGE_PULL_FAILED, f"There is no image {spec.image_ref}.")
        if any(job.volume is volume and job.state is JobState.RUNNING for job in self._world.jobs.values()):
            raise Refused(f"A job has the volume of {workspace_id}.")
        # A new address each time and none reused; a test that wants one reused sets it.
        endpoint = f"10.0.0.1:{10000 + next(self._world.counter)}"
        said = f"started {spec.image_ref}{' in safe mode' if spec.safe_mode else ''}"
        made = Instance(spec.op_id, spec.image_ref, volume, Life.READY, endpoint, log=[said])
        self._world.instances[workspace_id] = made
        self._world.changed()
        if self._world.faults.strikes(VERB, workspace_id, Misbehaviour.NEVER_READY) is not None:
            made.life = Life.ALIVE
            raise ActionFailed("The instance lives and does not take traffic.")
        if self._world.faults.strikes(VERB, workspace_id, Misbehaviour.DIES) is not None:
            made.life = Life.DEAD

    async def remove(self, workspace_id: WorkspaceId) -> None:
        def effect() -> None:
            if self._world.instances.pop(workspace_id, None) is not None:
                self._world.changed()

        await self._world.faults.call("instances.remove", workspace_id, effect, None)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        def effect() -> str:
            instance = self._world.instances.get(workspace_id)
            return "\n".join(instance.log[-lines:]) if instance is not None else ""

        return await self._world.faults.call("instances.logs", workspace_id, effect, "")

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        def effect() -> Mapping[WorkspaceId, InstanceUsage]:
            return {id_: one.usage for id_, one in self._world.instances.items() if one.life is not Life.DEAD}

        return await self._world.faults.call("instances.usage", None, effect, {})

    async def events(self) -> AsyncIterator[None]:
        event = asyncio.Event()
        self._world.listeners[event] = None
        try:
            while True:
                await event.wait()
                event.clear()
                yield
        finally:
            self._world.listeners.pop(event, None)


def _seen(instance: Instance) -> InstanceSeen:
    alive = instance.life is not Life.DEAD
    endpoint = instance.endpoint if alive else None
    return InstanceSeen(instance.life, instance.op_id, endpoint, blameless=instance.evicted)
