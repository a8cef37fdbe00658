"""Workspaces as containers `ws-{id}`: made from the allow-list, on the guarded network, with the home from its anchor.

Running counts as ready once its port has answered; that is remembered for the container's id, so a listing costs one
call to the engine and probes only those that were never seen ready.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import structlog

from codehub.drivers.base import InstanceSpec
from codehub.drivers.docker import seen, spec
from codehub.drivers.docker.api import Engine, EngineError, first, none_if_missing
from codehub.drivers.docker.network import WorkspaceNetwork
from codehub.drivers.docker.options import DockerOptions, WorkspaceImage
from codehub.drivers.docker.removal import remove_container
from codehub.drivers.docker.volumes import DockerVolumes
from codehub.drivers.registry import is_registry_outage
from codehub.errors import ActionFailed, DriverError, Refused, TerminalError, Unreachable
from codehub.model.names import instance_name
from codehub.model.observation import InstanceSeen, Life
from codehub.model.workspace import ErrorReason, WorkspaceId

log = structlog.get_logger()

_PROBE_SECONDS = 1.0
_POLL_SECONDS = 0.05
_RECONNECT_SECONDS = (0.2, 10.0)
_NOTHING = InstanceSeen(life=None)


class DockerInstances:
    """Implements drivers.base.Instances."""

    def __init__(
        self, engine: Engine, options: DockerOptions, volumes: DockerVolumes, network: WorkspaceNetwork
    ) -> None:
        self._engine = engine
        self._options = options
        self._volumes = volumes
        self._network = network
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
        image = self._options.images.get(spec.image_ref)
        if image is None:
            raise TerminalError(
                ErrorReason.IMAGE_PULL_FAILED,
                f"The image {spec.image_ref!r} is not one of those that workspaces may use.",
                f"Allowed are: {', '.join(sorted(self._options.images)) or 'none'}.",
            )
        container = await self._find(workspace_id)
        if container is not None and not container.runs:
            await remove_container(self._engine, container.id, self._options.patience.act)
            container = None
        if container is None:
            await self._network.ensure()
            await self._make(workspace_id, spec, image)
        await self._wait(workspace_id)

    async def remove(self, workspace_id: WorkspaceId) -> None:
        """SIGKILL: the engine answers when the last process of the container's namespace is gone."""
        name = instance_name(workspace_id)
        found = await none_if_missing(self._engine.get(f"/containers/{name}/json"))
        if found is None:
            return
        self._check_ours(name, found)
        await remove_container(self._engine, found["Id"], self._options.patience.act)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        path = f"/containers/{instance_name(workspace_id)}/logs"
        try:
            return seen.plain_log(await self._engine.read(path, stdout=1, stderr=1, tail=lines))
        except EngineError:  # not there, or being removed
            return ""

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
                await self._pull(body["Image"])
        raise AssertionError

    async def _pull(self, image: str) -> None:
        message = "fetching images is switched off"
        if self._options.pull:
            log.info("image is fetched", image=image)
            repository, tag = split_reference(image)
            try:
                lines = self._engine.lines(
                    "POST", "/images/create", seconds=self._options.patience.pull, fromImage=repository, tag=tag
                )
                failed = await first(lines, lambda line: "error" in line)
            except EngineError as error:
                failed = {"error": error.message}
            if failed is None:
                return
            message = str(failed["error"])
            if is_registry_outage(message):
                raise ActionFailed(f"The image {image} cannot be fetched now: {message}.")
        raise TerminalError(ErrorReason.IMAGE_PULL_FAILED, f"The image {image} cannot be had: {message}.")

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
        tail = (await self.logs(workspace_id, 5)).strip()
        return ActionFailed(f"{message} Its last words: {tail[-500:] or 'none'}")


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


def split_reference(image: str) -> tuple[str, str]:
    """Repository and tag (or digest), as the engine wants them; without a tag it would fetch every one there is."""
    if "@" in image:
        repository, _, digest = image.partition("@")
        return repository, digest
    head, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return head, tag
