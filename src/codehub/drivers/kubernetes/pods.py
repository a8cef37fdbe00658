"""What instances and jobs have in common: a pod is made closed, let in, opened; looked for, waited for, removed."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable

import structlog

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import seen
from codehub.drivers.kubernetes.api import CONFLICT, ApiError, Cluster, Json
from codehub.drivers.kubernetes.explain import explain, not_taken, refusal
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.drivers.kubernetes.volumes import KubernetesVolumes
from codehub.drivers.kubernetes.watch import Listener, PodWatch
from codehub.errors import ActionFailed, Refused
from codehub.model.workspace import WorkspaceId

log = structlog.get_logger()

PODS, SECRETS = "pods", "secrets"
_LOOK_AGAIN_SECONDS = 5.0  # where no change was heard of
_GATE_BYTES = 6


class Pods:
    """The pods of one installation."""

    def __init__(
        self, cluster: Cluster, options: KubernetesOptions, volumes: KubernetesVolumes, watch: PodWatch
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._volumes = volumes
        self._watch = watch

    async def all(self, role: str) -> list[seen.Pod]:
        installation = self._options.installation
        return seen.pods_of(await self._cluster.all(PODS, m.selector(installation, role)), installation)

    async def find(self, name: str) -> seen.Pod | None:
        """Refused for one that has this name and is not ours."""
        found = await self._cluster.get(PODS, name)
        if found is None:
            return None
        pod = seen.pod_of(found, self._options.installation)
        if pod is None:
            raise Refused(f"The pod {name} was not made by this installation.")
        return pod

    def new_gate(self, workspace_id: WorkspaceId) -> str:
        """A name that no other pod's gate has or had, the same workspace's included."""
        return f"ws-{workspace_id}-{secrets.token_hex(_GATE_BYTES)}"

    async def make(self, body: Json) -> seen.Pod | None:
        """A closed pod, or the one that has this name already; None if that went away meanwhile."""
        name = body["metadata"]["name"]
        try:
            made = await self._cluster.create(PODS, body)
        except ApiError as error:
            if error.status == CONFLICT and error.reason == "AlreadyExists":
                return await self.find(name)
            raise not_taken(f"The pod {name} is not made.", error.message) from error
        return seen.pod_of(made, self._options.installation)

    async def is_closed(self, pod: seen.Pod) -> bool:
        if pod.has_begun or pod.is_leaving:
            return False
        return await self._cluster.get(SECRETS, pod.gate) is None

    async def open(self, pod: seen.Pod, content: bytes | None = None) -> None:
        """Let it run, if the home is there and nobody else uses it; else remove it and raise Refused."""
        try:
            await self._volumes.enter(pod)
            self._check_alone(pod, await self._volumes.users(pod.workspace_id))
            await self._cluster.create(SECRETS, m.gate(dict(pod.object), content))
        except Refused:
            await self.remove(pod)
            raise
        except ApiError as error:
            if error.status != CONFLICT:  # somebody else has opened it
                await self.remove(pod)
                raise not_taken(f"The pod {pod.name} is not started.", error.message) from error

    async def remove(self, pod: seen.Pod, *, grace: int = 0) -> None:
        """Returns when the node has confirmed that nothing of it runs, which is when the object goes."""
        try:
            await self._cluster.delete(PODS, pod.name, uid=pod.uid, grace=max(grace, m.GRACE_SECONDS))
        except ApiError as error:
            if error.status == CONFLICT:
                return  # another one has its name: this one is gone
            raise ActionFailed(f"The pod {pod.name} is not removed. {refusal(error.message)}") from error
        last = pod
        try:
            async with asyncio.timeout(self._options.patience.removal + grace):
                async for found in self.states(pod):
                    if found is None:
                        return
                    last = found
        except TimeoutError:
            raise ActionFailed(f"The pod {pod.name} does not go. {explain(last.object)}") from None

    async def states(self, pod: seen.Pod) -> AsyncIterator[seen.Pod | None]:
        """What it looks like, now and whenever that may have changed; None, at the end, when it is gone."""
        with self._watch.listening(pod.name) as listener:
            told: Json | None = None
            while True:
                found = told or await self._cluster.get(PODS, pod.name)
                if found is None or found["metadata"]["uid"] != pod.uid:
                    yield None
                    return
                yield seen.pod_of(found, self._options.installation) or pod
                told = await _next_change(listener)

    def _check_alone(self, pod: seen.Pod, users: list[seen.Pod]) -> None:
        """A job that has ended writes no more; a dead instance is in the way of jobs all the same."""
        others = [
            other.name
            for other in users
            if other.uid != pod.uid and (not other.has_ended or (other.role == m.INSTANCE and pod.role == m.JOB))
        ]
        if others:
            raise Refused(f"The home is in use by {', '.join(others)}.")
        if all(user.uid != pod.uid for user in users):
            raise Refused(f"The pod {pod.name} was removed by somebody else.")


async def _next_change(listener: Listener) -> Json | None:
    """The pod as a change left it; None if nothing was heard for a while, or it must be looked at."""
    try:
        async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
            await listener.changed.wait()
    except TimeoutError:
        return None
    listener.changed.clear()
    return listener.found


class Cooling:
    """Which workspace had an address last, and when: the next pod to get it may be somebody else's too soon.

    A cluster chooses addresses itself, and some give the one that was just freed. Whoever still holds it (a proxy, a
    row that is a second old) would reach another person's editor.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._had: dict[str, tuple[str, float]] = {}

    def note(self, pods: list[seen.Pod]) -> None:
        """These have their addresses now."""
        now = self._clock()
        for pod in pods:
            if pod.address and not self.is_warm(pod):
                self._had[pod.address] = (pod.uid, now)
        if len(self._had) > 10_000:
            self._had = {address: had for address, had in self._had.items() if now - had[1] < self._seconds}

    def is_warm(self, pod: seen.Pod) -> bool:
        """Whether its address was another pod's a moment ago."""
        uid, at = self._had.get(pod.address or "", (pod.uid, 0.0))
        return uid != pod.uid and self._clock() - at < self._seconds
