"""Workspaces as pods `ws-{id}`: made from the allow-list, closed until the home is known to be theirs alone.

Ready is what the cluster calls ready: every container answers its probe. An address that was another workspace's a
moment ago is not used: such a pod is made again, so whoever still holds the old endpoint reaches nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace

import structlog

from codehub.drivers.base import InstanceSpec, InstanceUsage
from codehub.drivers.docker.options import WorkspaceImage
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import seen
from codehub.drivers.kubernetes.api import ApiError, Cluster
from codehub.drivers.kubernetes.explain import explain, image_trouble, is_nodes_doing
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.drivers.kubernetes.pods import Cooling, Pods
from codehub.drivers.kubernetes.volumes import KubernetesVolumes
from codehub.drivers.kubernetes.watch import PodWatch
from codehub.drivers.registry import is_without_cause, pull_failure
from codehub.errors import ActionFailed, DriverError, Refused, Unreachable
from codehub.model.names import instance_name
from codehub.model.observation import InstanceSeen
from codehub.model.sentences import log_ends
from codehub.model.workspace import WorkspaceId

log = structlog.get_logger()

_NOTHING = InstanceSeen(life=None)
_LOG_LINES = 20  # for the operator; people are told the last one
_MAKINGS = 5  # of a pod that gets an address which is still warm


class KubernetesInstances:
    """Implements drivers.base.Instances."""

    def __init__(
        self,
        cluster: Cluster,
        options: KubernetesOptions,
        pods: Pods,
        volumes: KubernetesVolumes,
        watch: PodWatch,
        *,
        isolate: Callable[[], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._pods = pods
        self._volumes = volumes
        self._watch = watch
        self._isolate = isolate
        self._cooling = Cooling(options.patience.cooling)
        self._is_unmeasured = False

    async def observe(self) -> Mapping[WorkspaceId, InstanceSeen]:
        pods = await self._pods.all(m.INSTANCE)
        self._cooling.note(pods)
        return {pod.workspace_id: self._seen(pod) for pod in pods}

    async def look(self, workspace_id: WorkspaceId) -> InstanceSeen:
        try:
            pod = await self._pods.find(instance_name(workspace_id))
        except Refused:
            return _NOTHING
        if pod is None:
            return _NOTHING
        self._cooling.note([pod])
        return self._seen(pod)

    async def start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        image = WorkspaceImage.of(self._options.images, spec.image_ref)
        for _ in range(_MAKINGS):
            pod = await self._wait(await self._ensure(workspace_id, spec, image))
            if not self._cooling.is_warm(pod):
                self._cooling.note([pod])
                if pod.object["spec"].get("initContainers"):
                    await self._volumes.note_owner(pod)
                return
            log.info("address was another's a moment ago, made again", pod=pod.name, address=pod.address)
            await self._pods.remove(pod)
        raise ActionFailed("The cluster gives only addresses that other workspaces had a moment ago.")

    async def remove(self, workspace_id: WorkspaceId) -> None:
        pod = await self._pods.find(instance_name(workspace_id))
        if pod is not None:
            self._cooling.note([pod])
            await self._pods.remove(pod, grace=self._options.stop_grace)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        try:
            return await self._cluster.logs(instance_name(workspace_id), m.INSTANCE, lines)
        except ApiError:  # it is not there, has not begun, or its node does not answer
            return ""

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        """By the metrics API, which a cluster need not have: then nothing is known."""
        try:
            measured = await self._cluster.metrics(m.selector(self._options.installation, m.INSTANCE))
        except ApiError as error:
            if not self._is_unmeasured:
                log.info("the cluster measures no pods", cause=str(error))
            self._is_unmeasured = True
            return {}
        self._is_unmeasured = False
        return seen.usage_of(measured, self._options.installation)

    def events(self) -> AsyncIterator[None]:
        return self._watch.changes()

    # -- how ---------------------------------------------------------------------------------------------------------

    def _seen(self, pod: seen.Pod) -> InstanceSeen:
        found = seen.instance_seen(pod)
        return replace(found, endpoint=None) if self._cooling.is_warm(pod) else found

    async def _ensure(self, workspace_id: WorkspaceId, spec: InstanceSpec, image: WorkspaceImage) -> seen.Pod:
        """A pod that lives and is open: the one that is there, or a new one."""
        pod = await self._pods.find(instance_name(workspace_id))
        if pod is not None and (pod.has_ended or pod.is_leaving):
            self._cooling.note([pod])
            await self._pods.remove(pod)
            pod = None
        if pod is not None and not await self._pods.is_closed(pod):
            return pod
        claim = await self._volumes.hold(workspace_id, spec.volume)
        uid = str(claim["metadata"]["uid"])
        if pod is not None and pod.volume_uid != uid:  # closed, and for a home that is gone
            await self._pods.remove(pod)
            pod = None
        if pod is None:
            await self._isolate()
            body = m.workspace_pod(
                self._options,
                workspace_id,
                uid,
                op_id=spec.op_id,
                image=image,
                gate=self._pods.new_gate(workspace_id),
                resources=spec.resources,
                safe_mode=spec.safe_mode,
                make_owner=m.OWNED not in (claim["metadata"].get("annotations") or {}),
            )
            pod = await self._pods.make(body)
            if pod is None:
                raise ActionFailed("The workspace was removed while it was started.")
        await self._pods.open(pod)
        return pod

    async def _wait(self, pod: seen.Pod) -> seen.Pod:
        """Until it takes traffic."""
        last, patience = pod, self._options.patience
        try:
            async with asyncio.timeout(patience.pending) as limit:
                began = False
                async for state in self._pods.states(pod):
                    if state is None:
                        raise ActionFailed("The workspace was removed while it was started.")
                    last = state
                    if last.is_ready:
                        return last
                    await self._check(last)
                    if last.phase == "Running" and not began:
                        began = True
                        limit.reschedule(asyncio.get_running_loop().time() + patience.ready)
        except TimeoutError:
            raise await self._with_logs(last, f"The workspace is not ready in time. {explain(last.object)}") from None
        raise AssertionError

    async def _check(self, pod: seen.Pod) -> None:
        trouble = image_trouble(pod.object)
        if trouble is not None:
            image, message = trouble
            if is_without_cause(message):
                return  # the node says why when it has asked again
            await self._pods.remove(pod)
            raise pull_failure(image, message)
        if pod.has_ended or pod.is_leaving:
            message = f"The workspace ended while it was started. {explain(pod.object)}"
            raise Unreachable(message) if is_nodes_doing(pod.object) else await self._with_logs(pod, message)

    async def _with_logs(self, pod: seen.Pod, message: str) -> DriverError:
        tail = await self.logs(pod.workspace_id, _LOG_LINES)
        log.warning("a workspace did not start", workspace_id=str(pod.workspace_id), log=tail)
        return ActionFailed(f"{message} {log_ends(tail)}")
