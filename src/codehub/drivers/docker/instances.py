"""Workspaces as containers `ws-{id}`: made from the allow-list, on the guarded network, with the home from its anchor.

Running counts as ready once its port has answered; that is remembered for the container's id, so a listing costs one
call to the engine and probes only those that were never seen ready.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import structlog

from codehub.drivers.base import InstanceSpec, InstanceUsage
from codehub.drivers.docker import seen, spec
from codehub.drivers.docker.api import Engine, EngineError, none_if_missing
from codehub.drivers.docker.network import WorkspaceNetwork
from codehub.drivers.docker.options import DockerOptions, WorkspaceImage
from codehub.drivers.docker.pulls import Pulls
from codehub.drivers.docker.removal import remove_container, stop_container
from codehub.drivers.docker.volumes import DockerVolumes
from codehub.drivers.registry import pull_failure
from codehub.errors import ActionFailed, DriverError, Refused, Unreachable
from codehub.model.names import instance_name
from codehub.model.observation import InstanceSeen, Life
from codehub.model.sentences import log_ends
from codehub.model.workspace import WorkspaceId

log = structlog.get_logger()

_PROBE_SECONDS = 1.0
_POLL_SECONDS = 0.05
_RECONNECT_SECONDS = (0.2, 10.0)
_MEASURED_AT_ONCE = 8  # each takes the engine some milliseconds
_NOTHING = InstanceSeen(life=None)
_LOG_LINES = 20  # for the operator; people are told the last one


class DockerInstances:
    """Implements drivers.base.Instances."""

    def __init__(
        self, engine: Engine, options: DockerOptions, volumes: DockerVolumes, network: WorkspaceNetwork
    ) -> None:
        self._engine = engine
        self._options = options
        self._volumes = volumes
        self._network = network
        self._pulls = Pulls(engine, options.patience)
        self._ready: set[str] = set()  # ids of containers whose port has answered

    async def observe(self) -> Mapping[WorkspaceId, InstanceSeen]:
        containers = await self._list()
        self._ready &= {container.id for container in containers}
        found = await asyncio.gather(*(self._seen(container) for container in containers))
        return {container.workspace_id: instance for container, instance in zip(containers, found, strict=True)}

    async def look(self, workspace_id: WorkspaceId) -> InstanceSeen:
        container = await self._find(workspace_id)
        return _NOTHING if container is None else await self._seen(container)

    async def start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        image = WorkspaceImage.of(self._options.images, spec.image_ref)
        container = await self._find(workspace_id)
        if container is not None and not container.runs:
            await remove_container(self._engine, container.id, self._options.patience.act)
            container = None
        if container is None:
            await self._network.ensure()
            await self._make(workspace_id, spec, image)
        await self._wait(workspace_id)

    async def remove(self, workspace_id: WorkspaceId) -> None:
        """SIGKILL, after the grace: the engine answers when the last process of the container's namespace is gone."""
        name = instance_name(workspace_id)
        found = await none_if_missing(self._engine.get(f"/containers/{name}/json"))
        if found is None:
            return
        self._check_ours(name, found)
        if self._options.stop_grace:
            await stop_container(self._engine, found["Id"], self._options.stop_grace, self._options.patience.act)
        await remove_container(self._engine, found["Id"], self._options.patience.act)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        path = f"/containers/{instance_name(workspace_id)}/logs"
        try:
            return seen.plain_log(await self._engine.read(path, stdout=1, stderr=1, tail=lines))
        except EngineError:  # not there, or being removed
            return ""

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        room = asyncio.Semaphore(_MEASURED_AT_ONCE)

        async def measured(container: seen.Container) -> InstanceUsage | None:
            async with room:
                path = f"/containers/{container.id}/stats"
                try:
                    return seen.usage_of(await self._engine.get(path, stream="false", **{"one-shot": "true"}))
                except EngineError:  # it has gone meanwhile
                    return None

        running = [container for container in await self._list() if container.state == "running"]
        found = zip(running, await asyncio.gather(*map(measured, running)), strict=True)
        return {container.workspace_id: usage for container, usage in found if usage is not None}

    async def events(self) -> AsyncIterator[None]:
        """Also yields after each reconnection: whatever happened meanwhile was missed."""
        pause, longest = _RECONNECT_SECONDS
        while True:
            filters = {"type": ["container"], "label": [f"{spec.LABEL_INSTALLATION}={self._options.installation}"]}
            with contextlib.suppress(Unreachable, EngineError):
                stream = self._engine.lines("GET", "/events", seconds=None, filters=filters)
                async with contextlib.aclosing(stream):
                    async for _ in stream:
                        pause = _RECONNECT_SECONDS[0]
                        yield
            self._network.doubt()
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def close(self) -> None:
        await self._pulls.close()

    # -- looking -----------------------------------------------------------------------------------------------------

    async def _list(self) -> list[seen.Container]:
        filters = spec.label_filter(self._options.installation, spec.WORKSPACE)
        listed = await self._engine.get("/containers/json", all=1, filters=filters)
        found = (seen.container_of(line, self._options.network) for line in listed)
        return [container for container in found if container is not None]

    async def _find(self, workspace_id: WorkspaceId) -> seen.Container | None:
        """Asked for by its name: a filtered listing costs the engine as much as the whole one."""
        found = await none_if_missing(self._engine.get(f"/containers/{instance_name(workspace_id)}/json"))
        if found is None or not seen.is_workspace(found, self._options.installation):
            return None
        return seen.container_of(seen.as_listed(found), self._options.network)

    async def _seen(self, container: seen.Container) -> InstanceSeen:
        if not container.runs:
            return InstanceSeen(Life.DEAD, container.op_id)
        ready = await self._has_answered(container)
        return InstanceSeen(Life.READY if ready else Life.ALIVE, container.op_id, container.address)

    async def _has_answered(self, container: seen.Container) -> bool:
        """Now, or ever since it was made."""
        if container.id not in self._ready:
            if container.state != "running" or not await answers(container.address, container.ready_path):
                return False
            self._ready.add(container.id)
        return True

    def _check_ours(self, name: str, found: Any) -> None:  # noqa: ANN401 - the engine's JSON
        labels = found["Config"]["Labels"] or {}
        if labels.get(spec.LABEL_INSTALLATION) != self._options.installation:
            raise Refused(f"The container {name} was not made by this installation.")

    # -- making ------------------------------------------------------------------------------------------------------

    async def _make(self, workspace_id: WorkspaceId, wanted: InstanceSpec, image: WorkspaceImage) -> None:
        anchor_id = await self._volumes.hold(workspace_id, wanted.volume)
        body = spec.workspace_body(
            self._options,
            workspace_id,
            wanted.volume,
            op_id=wanted.op_id,
            image=image,
            anchor_id=anchor_id,
            address=await self._network.address(),
            resources=wanted.resources,
            safe_mode=wanted.safe_mode,
        )
        try:
            container_id = await self._create(instance_name(workspace_id), body, anchor_id)
        except EngineError as error:
            raise ActionFailed(f"The engine does not make the container: {error.message}.") from error
        if users := await self._volumes.others(workspace_id, container_id):
            await remove_container(self._engine, container_id, self._options.patience.act)
            raise Refused(f"The home is in use by {', '.join(users)}.")
        try:
            await self._engine.post(f"/containers/{container_id}/start")
        except EngineError as error:
            await remove_container(self._engine, container_id, self._options.patience.act)
            raise ActionFailed(f"The container does not start: {error.message}.") from error

    async def _create(self, name: str, body: spec.Body, anchor_id: str) -> str:
        """Make the container, fetching its image if need be."""
        for attempt in range(2):
            try:
                return str((await self._engine.post("/containers/create", body, name=name))["Id"])
            except EngineError as error:
                if anchor_id in error.message:
                    raise Refused("The home went away before it could be mounted.") from error
                if error.status != 404 or attempt:
                    raise
                if not self._options.pull:
                    raise pull_failure(body["Image"], "fetching images is switched off") from error
                await self._pulls.fetch(body["Image"])
        raise AssertionError

    async def _wait(self, workspace_id: WorkspaceId) -> None:
        try:
            async with asyncio.timeout(self._options.patience.ready):
                while not await self._is_ready(workspace_id):  # noqa: ASYNC110 - a port has no event
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            seconds = self._options.patience.ready
            raise await self._with_logs(workspace_id, f"The workspace does not answer within {seconds:g} s.") from None

    async def _is_ready(self, workspace_id: WorkspaceId) -> bool:
        container = await self._find(workspace_id)
        if container is None or not container.runs:
            raise await self._with_logs(workspace_id, "The workspace ended while it was started.")
        return await self._has_answered(container)

    async def _with_logs(self, workspace_id: WorkspaceId, message: str) -> DriverError:
        tail = await self.logs(workspace_id, _LOG_LINES)
        log.warning("a workspace did not start", workspace_id=str(workspace_id), log=tail)
        return ActionFailed(f"{message} {log_ends(tail)}")


async def answers(address: str | None, path: str) -> bool:
    """Whether an HTTP server takes requests there: any status below 500 will do."""
    if address is None:
        return False
    host, _, port = address.rpartition(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(request)
                status = (await reader.readline()).split(b" ")
            finally:
                writer.close()
    except (OSError, ValueError):  # TimeoutError is an OSError
        return False
    return len(status) > 1 and status[0].startswith(b"HTTP/1.") and status[1].isdigit() and int(status[1]) < 500
