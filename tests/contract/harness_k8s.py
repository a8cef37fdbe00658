"""The Kubernetes driver in the contract suite: a real cluster, reached behind the driver's back by kubectl."""

import os
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

from codehub.drivers.archives import ArchiveStore, JobUrls
from codehub.drivers.base import Archives, Backend
from codehub.drivers.kubernetes import KubernetesDriver, KubernetesOptions
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.options import Patience
from codehub.model.names import instance_name, parse_archive_key, volume_name
from codehub.model.workspace import ArchiveKey, WorkspaceId
from tests.contract.harness import Harness, Images, Skill
from tests.contract.s3 import machine_address, silent_urls
from tests.lab.k8s import Lab, ServerWire, lab
from tests.support import eventually, eventually_async

UID = 1000


class KubernetesHarness:
    name = "k8s"
    images = Images(quick="quick", missing="missing")
    skills = frozenset(Skill) - {Skill.USAGE}  # the lab's cluster has no metrics API

    def __init__(
        self, cluster: Lab, options: KubernetesOptions, wire: ServerWire, store: ArchiveStore, silent: str
    ) -> None:
        self.lab = cluster
        self.options = options
        self.wire = wire
        self.store = store
        self.archives: Archives = store
        self.silent = silent
        self.held: set[WorkspaceId] = set()
        self.pids: dict[WorkspaceId, set[int]] = {}
        self.drivers: list[KubernetesDriver] = []
        self.backend: Backend = self.another()

    @property
    def namespace(self) -> str:
        assert self.options.namespace is not None
        return self.options.namespace

    def another(self) -> Backend:
        self.drivers.append(KubernetesDriver(self.options, self.urls))
        return self.drivers[-1].backend

    def urls(self, key: ArchiveKey) -> JobUrls:
        if parse_archive_key(key).workspace_id not in self.held:
            return self.store.job_urls(key)
        return silent_urls(key, f"http://{self.silent}")

    async def home(self, workspace_id: WorkspaceId) -> Path:
        claim = volume_name(workspace_id)

        async def is_bound() -> bool:
            return bool(self.lab.get(self.namespace, "pvc", claim)["spec"].get("volumeName"))

        await eventually_async(is_bound, "the claim has a volume")
        return self.lab.home(self.namespace, claim)

    async def write_home(self, workspace_id: WorkspaceId, files: Mapping[str, bytes]) -> None:
        home = await self.home(workspace_id)
        for name, content in files.items():
            path = home / name
            for folder in reversed([one for one in path.parents if home in one.parents]):
                folder.mkdir(exist_ok=True)
                os.chown(folder, UID, UID)
            path.write_bytes(content)
            os.chown(path, UID, UID)

    async def read_home(self, workspace_id: WorkspaceId) -> Mapping[str, bytes]:
        home = await self.home(workspace_id)
        return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}

    async def kill_instance(self, workspace_id: WorkspaceId) -> None:
        name = instance_name(workspace_id)
        pod = self.lab.get(self.namespace, "pod", name)
        self.lab.kill_container(pod["status"]["containerStatuses"][0]["containerID"])
        eventually(lambda: self.lab.get(self.namespace, "pod", name)["status"]["phase"] == "Failed", "it is dead")

    async def lose_volume(self, workspace_id: WorkspaceId) -> None:
        """The cluster gives it only when nothing refers to it: an accident that takes the pods too."""
        home = await self.home(workspace_id)
        label = f"{m.WORKSPACE}={workspace_id}"
        self.lab.run("delete", "pods", "-n", self.namespace, "-l", label, "--grace-period=0", "--force")
        self.lab.run("delete", "pvc", "-n", self.namespace, volume_name(workspace_id))
        shutil.rmtree(home, ignore_errors=True)

    async def instance_processes(self, workspace_id: WorkspaceId) -> int:
        """Those seen earlier are looked for one by one, since a pod that is gone cannot be asked."""
        known = self.pids.setdefault(workspace_id, set())
        pod = self.lab.get(self.namespace, "pod", instance_name(workspace_id))
        if pod is not None:
            known |= _pids_of(pod["metadata"]["uid"])
        return sum(map(_lives, known))

    async def make_jobs_long(self, workspace_id: WorkspaceId) -> None:
        """Its store is a port that takes connections and never answers."""
        self.held.add(workspace_id)

    async def clutter(self) -> None:
        ours, stranger = {m.INSTALLATION: self.options.installation}, str(uuid4())
        pods = {
            f"ws-{uuid4()}": {},
            "ws-not-an-id": ours | {m.ROLE: m.INSTANCE, m.WORKSPACE: "x"},
            f"other-{stranger[:8]}": ours | {m.ROLE: m.INSTANCE, m.WORKSPACE: stranger},
            f"ws-job-{stranger}": ours | {m.ROLE: m.JOB, m.OP: "x"},
        }
        for name, labels in pods.items():
            body = m.probe_pod(self.options, name, m.PROBE, ["true"])
            body["metadata"]["labels"] = labels
            await self.drivers[0].cluster.create("pods", body)
        for name, labels in {"ws-1-home": ours | {m.ROLE: m.HOME_ROLE}, f"ws-{stranger}-home": {}}.items():
            claim = m.claim(self.options, WorkspaceId(uuid4()), "x")  # type: ignore[arg-type]
            claim["metadata"] = {"name": name, "labels": labels}
            await self.drivers[0].cluster.create("persistentvolumeclaims", claim)

    async def break_engine(self) -> None:
        await self.wire.cut()

    async def mend_engine(self) -> None:
        await self.wire.mend()

    async def close(self) -> None:
        for driver in self.drivers:
            await driver.close()


def _pids_of(pod_uid: str) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            if f"pod{pod_uid}" in path.read_text():
                found.add(int(path.parent.name))
    return found


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@asynccontextmanager
async def open_harness(folder: Path, store: ArchiveStore) -> AsyncIterator[Harness]:
    cluster = lab()
    wire = ServerWire(cluster, folder)
    await wire.mend()
    patience = Patience(connect=1.0, look=5.0, pending=60.0, ready=30.0)
    with (
        cluster.namespace() as namespace,
        machine_address() as address,
        socket.create_server((address, 0)) as silent,
    ):
        options = cluster.options(namespace=namespace, kubeconfig=wire.kubeconfig, patience=patience)
        port = silent.getsockname()[1]
        harness = KubernetesHarness(cluster, options, wire, store, f"{address}:{port}")
        try:
            yield harness
        finally:
            await harness.close()
            await wire.cut()
