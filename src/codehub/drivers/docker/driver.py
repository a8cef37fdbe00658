"""The Docker driver as a whole: its parts wired together, made ready once, closed once."""

import asyncio
from uuid import UUID

from codehub.drivers.base import Backend
from codehub.drivers.docker.api import Engine, none_if_missing
from codehub.drivers.docker.instances import DockerInstances
from codehub.drivers.docker.jobs import DockerJobs
from codehub.drivers.docker.network import WorkspaceNetwork
from codehub.drivers.docker.options import DockerOptions, WorkspaceImage
from codehub.drivers.docker.reach import Reach, reach_of
from codehub.drivers.docker.volumes import DockerVolumes
from codehub.drivers.storage_jobs import UrlsOf
from codehub.errors import Unreachable
from codehub.model.names import archive_key
from codehub.model.workspace import OpId, WorkspaceId

_ZERO = UUID(int=0)


class DockerDriver:
    """One engine, and the archive store that its jobs use. Nothing is contacted before the first call."""

    def __init__(self, options: DockerOptions, urls_of: UrlsOf) -> None:
        self._options = options
        self._urls_of = urls_of
        self._engine = Engine(options.host, options.patience)
        self._network = WorkspaceNetwork(self._engine, options, self._reach)
        self.volumes = DockerVolumes(self._engine, options)
        self.instances = DockerInstances(self._engine, options, self.volumes, self._network)
        self.jobs = DockerJobs(self._engine, options, self.volumes, self._network, urls_of)

    @property
    def backend(self) -> Backend:
        return Backend(self.instances, self.volumes, self.jobs)

    async def prepare(self) -> None:
        """Once at start, and harmless again: networks, firewall, and anchors that were lost.

        Raises Unreachable while the engine is out, ActionFailed where workspaces cannot be isolated and must be.
        """
        await self._network.ensure()
        await self.volumes.heal()

    async def self_check(self) -> list[str]:
        """What would keep workspaces from starting or from being archived: images that are missing for good."""
        needed = {self._options.job_image: False}  # jobs fetch nothing: homes must not wait for a registry
        needed |= {image.image: self._options.pull for image in WorkspaceImage.fixed(self._options.images).values()}
        problems = []
        for image, is_fetched in sorted(needed.items()):
            if is_fetched:
                continue
            try:
                found = await none_if_missing(self._engine.get(f"/images/{image}/json"))
            except Unreachable as error:  # the engine has just answered: it does not like this name
                problems.append(f"The image {image} cannot be looked for: {error.message}")
            else:
                if found is None:
                    problems.append(f"The engine lacks the image {image}: build it with `make image`, or pull it.")
        return problems

    def isolation(self) -> list[str]:
        """What separates workspaces from each other and from this machine, for /readyz and the log."""
        return self._network.isolation()

    async def close(self) -> None:
        await self.instances.close()
        await self._engine.close()

    async def _reach(self) -> Reach:
        nobody = archive_key(WorkspaceId(_ZERO), OpId(_ZERO))
        return await reach_of(await asyncio.to_thread(self._urls_of, nobody), self._options)
