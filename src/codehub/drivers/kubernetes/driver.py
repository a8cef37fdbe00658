"""The Kubernetes driver as a whole: its parts wired together, made ready once, closed once."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import urlsplit
from uuid import UUID

from codehub.drivers.base import Backend, Resources
from codehub.drivers.docker.options import WorkspaceImage
from codehub.drivers.docker.reach import addresses_of
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.access import Access, find_access
from codehub.drivers.kubernetes.api import ApiError, Cluster
from codehub.drivers.kubernetes.explain import refusal
from codehub.drivers.kubernetes.instances import KubernetesInstances
from codehub.drivers.kubernetes.isolation import Isolation
from codehub.drivers.kubernetes.jobs import KubernetesJobs
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.drivers.kubernetes.pods import Pods
from codehub.drivers.kubernetes.policies import Body, store_rules
from codehub.drivers.kubernetes.volumes import KubernetesVolumes
from codehub.drivers.kubernetes.watch import PodWatch
from codehub.drivers.storage_jobs import UrlsOf
from codehub.errors import ActionFailed
from codehub.model.names import archive_key
from codehub.model.workspace import Incarnation, OpId, WorkspaceId

OLDEST = (1, 20)
_AT_ONCE = 256  # waiting for pods costs nothing here, and those that wait for a node must not hold up the others
_NOBODYS = WorkspaceId(UUID(int=0))
_NOBODY = archive_key(_NOBODYS, OpId(UUID(int=0)))


def placed(options: KubernetesOptions, access: Access) -> KubernetesOptions:
    """The same, with the namespaces that it leaves open: of workspaces, and of our own pods if there are any."""
    return replace(
        options,
        namespace=options.namespace or access.namespace or "default",
        control_namespace=options.control_namespace or access.own_namespace,
    )


class KubernetesDriver:
    """One namespace of a cluster, and the archive store that its jobs use. Nothing is contacted before the first call.

    Raises SettingsError where the settings name no cluster.
    """

    def __init__(self, options: KubernetesOptions, urls_of: UrlsOf) -> None:
        access = find_access(options.kubeconfig, options.context)
        self._urls_of = urls_of
        self._options = options = placed(options, access)
        self.cluster = Cluster(access, str(options.namespace), options.patience)
        self._watch = PodWatch(self.cluster, m.selector(options.installation))
        self._isolation = Isolation(self.cluster, options, self._store_rules)
        self.volumes = KubernetesVolumes(self.cluster, options)
        pods = Pods(self.cluster, options, self.volumes, self._watch)
        self.instances = KubernetesInstances(
            self.cluster, options, pods, self.volumes, self._watch, isolate=self._isolation.ensure
        )
        self.jobs = KubernetesJobs(self.cluster, options, pods, self.volumes, urls_of)

    @property
    def backend(self) -> Backend:
        return Backend(self.instances, self.volumes, self.jobs, at_once=_AT_ONCE)

    async def prepare(self) -> None:
        """Once at start, and harmless again: the cluster is new enough, and the network policies are there.

        Raises Unreachable while the cluster is out.
        """
        version = await self.cluster.version()
        numbers = tuple(int(re.sub(r"\D", "", str(version.get(part, ""))) or 0) for part in ("major", "minor"))
        if numbers < OLDEST:
            raise ActionFailed(f"The cluster runs Kubernetes {version.get('gitVersion')}.", "1.20 or newer is needed.")
        await self._isolation.put_back()

    async def self_check(self) -> list[str]:
        """What the cluster would not take of a home, a workspace and a storage job, by a dry run of each."""
        problems = []
        for what, kind, body in self._samples():
            try:
                await self.cluster.create(kind, body, dry_run=True)
            except ApiError as error:
                problems.append(f"The cluster would refuse {what}: {refusal(error.message)}")
        return problems

    def _samples(self) -> Iterator[tuple[str, str, Body]]:
        options, op_id, gate = self._options, OpId(UUID(int=0)), "codehub-dry-run"
        yield "a home", "persistentvolumeclaims", m.claim(options, _NOBODYS, Incarnation("dry-run"))
        for name, image in WorkspaceImage.fixed(options.images).items():
            pod = m.workspace_pod(
                options, _NOBODYS, "", op_id=op_id, image=image, gate=gate, resources=Resources(), make_owner=True
            )
            yield f"a workspace ({name})", "pods", pod
        yield "a storage job", "pods", m.job_pod(options, _NOBODYS, "", op_id=op_id, gate=gate)

    def isolation(self) -> list[str]:
        """What separates workspaces from each other and from the cluster, for /readyz and the log."""
        return self._isolation.sentences()

    async def close(self) -> None:
        await self._watch.close()
        await self.cluster.close()

    async def _store_rules(self) -> list[Body]:
        store = (await asyncio.to_thread(self._urls_of, _NOBODY)).store
        endpoint = urlsplit(str(store.get("endpoint") or ""))
        if endpoint.hostname is None:
            return store_rules(self._options, None, 443, ())
        port = endpoint.port or (80 if endpoint.scheme == "http" else 443)
        addresses = sorted(map(str, await addresses_of(endpoint.hostname, port)))
        if any(ip_address(address).is_loopback for address in addresses):
            raise ActionFailed(
                f"Pods cannot reach the archive store {endpoint.geturl()}: it is on this machine's loopback.",
                "Name it in S3_ENDPOINT by an address that the cluster reaches.",
            )
        return store_rules(self._options, endpoint.hostname, port, addresses)
