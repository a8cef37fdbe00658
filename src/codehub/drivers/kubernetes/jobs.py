"""Storage jobs as pods `ws-job-{op_id}`: they outlive us, and the next process reads what became of them.

A bare pod and no Job of the cluster's: a Job makes a second pod when it believes the first to be lost, and a home has
one user at a time. Requests, with the store's credentials in them, are in the Secret that opens the pod, which belongs
to the pod and goes with it: no argument, environment or manifest of a pod shows them.
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from codehub.drivers.first_seen import FirstSeen
from codehub.drivers.job_words import Words
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import seen
from codehub.drivers.kubernetes.api import NOT_FOUND, ApiError, Cluster
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.drivers.kubernetes.pods import Pods
from codehub.drivers.kubernetes.volumes import KubernetesVolumes
from codehub.drivers.storage_jobs import UrlsOf, request_of
from codehub.errors import ActionFailed, Unreachable
from codehub.model.names import archive_key, job_name
from codehub.model.observation import JobSeen
from codehub.model.workspace import ArchiveKey, OpId, VolumeRef, WorkspaceId

log = structlog.get_logger()

_LAST_LINES = 20
_READ_AGAIN_SECONDS = 5.0  # of a job that runs: the API server asks its node, for each
_CLOSED_SECONDS = 60.0  # a job this long closed has lost whoever made it


class KubernetesJobs:
    """Implements drivers.base.Jobs."""

    def __init__(
        self, cluster: Cluster, options: KubernetesOptions, pods: Pods, volumes: KubernetesVolumes, urls_of: UrlsOf
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._pods = pods
        self._volumes = volumes
        self._urls_of = urls_of
        self._words = Words(_READ_AGAIN_SECONDS)  # by the uid of a job's pod
        self._first_seen = FirstSeen()  # likewise

    async def observe(self) -> Mapping[WorkspaceId, Sequence[JobSeen]]:
        pods = await self._pods.all(m.JOB)
        uids = {pod.uid for pod in pods}
        self._words.keep(uids)
        ages = self._first_seen.ages(uids)
        jobs = await asyncio.gather(*(self._seen(pod, ages[pod.uid]) for pod in pods))
        found: dict[WorkspaceId, list[JobSeen]] = {}
        for pod, job in zip(pods, jobs, strict=True):
            if job is not None:
                found.setdefault(pod.workspace_id, []).append(job)
        return found

    async def archive(self, workspace_id: WorkspaceId, op_id: OpId, volume: VolumeRef) -> None:
        await self._start("archive", workspace_id, op_id, archive_key(workspace_id, op_id), volume)

    async def restore(self, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef) -> None:
        await self._start("restore", workspace_id, op_id, key, volume)

    async def remove(self, workspace_id: WorkspaceId, op_id: OpId) -> None:  # noqa: ARG002 - the name is the op_id's
        pod = await self._pods.find(job_name(op_id))
        if pod is not None:
            await self._pods.remove(pod)

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _start(
        self, verb: str, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef
    ) -> None:
        pod = await self._pods.find(job_name(op_id))
        if pod is not None and not await self._pods.is_closed(pod):
            return
        uid = str((await self._volumes.hold(workspace_id, volume))["metadata"]["uid"])
        request = request_of(verb, op_id, key, await asyncio.to_thread(self._urls_of, key), m.HOME)
        if pod is not None and pod.volume_uid != uid:
            await self._pods.remove(pod)
            pod = None
        if pod is None:
            gate = self._pods.new_gate(workspace_id)
            pod = await self._pods.make(m.job_pod(self._options, workspace_id, uid, op_id=op_id, gate=gate))
            if pod is None:
                raise ActionFailed("The job was removed while it was started.")
        await self._pods.open(pod, request)
        log.info("job started", workspace_id=str(workspace_id), op_id=str(op_id), verb=verb)

    async def _seen(self, pod: seen.Pod, waited: float) -> JobSeen | None:
        """None for one that was removed since it was listed."""
        patience = self._options.patience.pending
        try:
            text: str | None = await self._said(pod) if pod.has_begun else ""
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            text = "" if error.status < 500 else None
        except Unreachable:
            text = None
        if text is None:  # its node does not answer: nothing new is known
            return seen.job_unread(pod)
        if waited > _CLOSED_SECONDS and await self._pods.is_closed(pod):
            patience = _CLOSED_SECONDS
        return seen.job_seen(pod, text, waited, patience)

    async def _said(self, pod: seen.Pod) -> str:
        """Its last lines."""

        async def read() -> str:
            return await self._cluster.logs(pod.name, m.JOB, _LAST_LINES, timestamps=True)

        return await self._words.of(pod.uid, read, has_ended=pod.has_ended)
