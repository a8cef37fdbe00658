"""Storage jobs as containers `ws-job-{op_id}`: they outlive us, and the next process reads what became of them.

A job is root inside, with the few capabilities that restoring owners and modes takes, since a home may hold files its
own user cannot read; it has a read-only root, no network where the store is a folder, and no other volume. Requests,
with the store's credentials in them, go to its standard input: neither `docker inspect` nor /proc shows them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from codehub.drivers.docker import seen, spec
from codehub.drivers.docker.api import Engine, EngineError, none_if_missing
from codehub.drivers.docker.network import WorkspaceNetwork
from codehub.drivers.docker.options import DockerOptions
from codehub.drivers.docker.reach import make_folder, reach_of
from codehub.drivers.docker.removal import remove_container
from codehub.drivers.docker.volumes import DockerVolumes
from codehub.drivers.first_seen import FirstSeen
from codehub.drivers.job_words import Words
from codehub.drivers.storage_jobs import UrlsOf, request_of
from codehub.errors import ActionFailed, Refused
from codehub.model.names import archive_key, job_name
from codehub.model.observation import JobSeen
from codehub.model.workspace import ArchiveKey, OpId, VolumeRef, WorkspaceId

log = structlog.get_logger()

_LAST_LINES = 20


class DockerJobs:
    """Implements drivers.base.Jobs."""

    def __init__(
        self, engine: Engine, options: DockerOptions, volumes: DockerVolumes, network: WorkspaceNetwork, urls_of: UrlsOf
    ) -> None:
        self._engine = engine
        self._options = options
        self._volumes = volumes
        self._network = network
        self._urls_of = urls_of
        self._words = Words()  # by the id of a job's container
        self._first_seen = FirstSeen()  # likewise

    async def observe(self) -> Mapping[WorkspaceId, Sequence[JobSeen]]:
        filters = spec.label_filter(self._options.installation, spec.JOB)
        listed = await self._engine.get("/containers/json", all=1, filters=filters)
        jobs = [job for job in map(seen.job_of, listed) if job is not None]
        self._words.keep({job.id for job in jobs})
        logs = await asyncio.gather(*(self._log(job) for job in jobs))
        ages = self._first_seen.ages({job.id for job in jobs})
        found: dict[WorkspaceId, list[JobSeen]] = {}
        for job, text in zip(jobs, logs, strict=True):
            if text is not None:
                found.setdefault(job.workspace_id, []).append(seen.job_seen(job, text, ages[job.id]))
        return found

    async def archive(self, workspace_id: WorkspaceId, op_id: OpId, volume: VolumeRef) -> None:
        await self._start("archive", workspace_id, op_id, archive_key(workspace_id, op_id), volume)

    async def restore(self, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef) -> None:
        await self._start("restore", workspace_id, op_id, key, volume)

    async def remove(self, workspace_id: WorkspaceId, op_id: OpId) -> None:  # noqa: ARG002 - the name is the op_id's
        job = await self._find(op_id)
        if job is not None:
            await remove_container(self._engine, job["Id"], self._options.patience.act)

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _start(
        self, verb: str, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef
    ) -> None:
        existing = await self._find(op_id)
        if existing is not None:
            if existing["State"]["Status"] != "created":
                return
            await remove_container(self._engine, existing["Id"], self._options.patience.act)  # whoever made it is gone
        anchor_id = await self._volumes.hold(workspace_id, volume)
        urls = await asyncio.to_thread(self._urls_of, key)
        reach = await reach_of(urls, self._options)
        if reach.access is not None:
            await self._network.ensure()
        mount = None if reach.folder is None else await asyncio.to_thread(archive_mount, Path(reach.folder), verb)
        body = spec.job_body(
            self._options,
            workspace_id,
            (await self._volumes.look(workspace_id)).ref,
            op_id=op_id,
            verb=verb,
            anchor_id=anchor_id,
            network=reach.network,
            mount=mount,
        )
        request = request_of(verb, op_id, key, urls, spec.HOME)
        try:
            made = await self._engine.post("/containers/create", body, name=job_name(op_id))
        except EngineError as error:
            if error.status == 409 and "name" in error.message:
                return  # the same job, started by another process
            if anchor_id in error.message:
                raise Refused("The home went away before the job could mount it.") from error
            raise ActionFailed(f"The engine does not make the job: {error.message}.") from error
        if users := await self._volumes.others(workspace_id, made["Id"]):
            await remove_container(self._engine, made["Id"], self._options.patience.act)
            raise Refused(f"The home is in use by {', '.join(users)}.")
        try:
            await self._engine.feed(made["Id"], request)
        except EngineError as error:
            await remove_container(self._engine, made["Id"], self._options.patience.act)
            raise ActionFailed(f"The job does not start: {error.message}.") from error
        log.info("job started", workspace_id=str(workspace_id), op_id=str(op_id), verb=verb)

    async def _find(self, op_id: OpId) -> Any:  # noqa: ANN401 - the engine's JSON
        found = await none_if_missing(self._engine.get(f"/containers/{job_name(op_id)}/json"))
        if found is not None:
            labels = found["Config"]["Labels"] or {}
            if labels.get(spec.LABEL_INSTALLATION) != self._options.installation:
                raise Refused(f"The container {job_name(op_id)} was not made by this installation.")
        return found

    async def _log(self, job: seen.Job) -> str | None:
        """Its last lines; None if it was removed since it was listed."""
        path = f"/containers/{job.id}/logs"

        async def read() -> str:
            return seen.plain_log(await self._engine.read(path, stdout=1, timestamps=1, tail=_LAST_LINES))

        try:
            return await self._words.of(job.id, read, has_ended=job.state == "exited")
        except EngineError:  # not there any more; or dead, a removal of it having failed half way
            return "" if job.state == "dead" else None


def archive_mount(folder: Path, verb: str) -> spec.Body | None:
    """The one archive's folder, to write or to read; None for one that is not there, which the job then says."""
    if verb == "archive":
        make_folder(folder)
    elif not folder.is_dir():
        return None
    return spec.folder_mount(str(folder), read_only=verb != "archive")
