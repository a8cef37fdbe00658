"""A namespace of the lab's cluster as a place for the coordinators of tests/crash."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codehub.drivers.kubernetes import manifests as m
from codehub.model.workspace import InstanceBackend, StorageBackend
from tests.contract.s3 import S3Server
from tests.crash.site import IMAGE, Site, open_site
from tests.lab.docker import new_installation
from tests.lab.k8s import Lab


@dataclass
class Pods:
    """The Kubernetes driver, as an installation of its own."""

    lab: Lab
    namespace: str
    kubeconfig: Path
    installation: str = field(default_factory=new_installation)
    instance_backend = InstanceBackend.K8S
    storage_backend = StorageBackend.K8S_PVC

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "CODEHUB_BACKENDS": "k8s",
            "CODEHUB_IMAGES": f"{IMAGE}={self.lab.workspace_image}",
            "CODEHUB_INSTALLATION": self.installation,
            "K8S_KUBECONFIG": str(self.kubeconfig),
            "K8S_NAMESPACE": self.namespace,
            "K8S_JOB_IMAGE": self.lab.job_image,
            "K8S_PULL": "false",
            "K8S_REQUIRE_ISOLATION": "false",
            "K8S_HOME_SIZE": "1GiB",
            "K8S_REQUEST_MEMORY": "64MiB",
            "WORKSPACE_MEMORY": "256MiB",
        }

    def left_over(self) -> list[str]:
        return [one["metadata"]["name"] for one in self._objects()]

    def kinds(self) -> set[str]:
        """What there is of workspaces."""
        return {one["kind"] for one in self._objects()}

    def policies(self) -> list[dict[str, Any]]:
        return list(self.lab.get(self.namespace, "networkpolicies"))

    def _objects(self) -> list[dict[str, Any]]:
        pods = [one for one in self.lab.get(self.namespace, "pods") if one["metadata"]["labels"].get(m.WORKSPACE)]
        secrets = [one for one in self.lab.get(self.namespace, "secrets") if one["type"] == "Opaque"]
        return [*pods, *self.lab.get(self.namespace, "pvc"), *secrets]

    def pod(self) -> dict[str, dict[str, str]] | None:
        """The one workspace that runs here."""
        found = self.lab.get(self.namespace, "pods")
        return next((one for one in found if one["metadata"]["labels"].get(m.ROLE) == m.INSTANCE), None)

    def close(self) -> None:
        """The namespace takes everything with it."""


@contextmanager
def pods_in(lab: Lab, kubeconfig: Path | None = None) -> Iterator[Pods]:
    with lab.namespace() as namespace:
        yield Pods(lab, namespace, kubeconfig or lab.kubeconfig)


@asynccontextmanager
async def k8s_site(folder: Path, database_url: str, redis_url: str, place: Pods, s3: S3Server) -> AsyncIterator[Site]:
    (folder / "d").mkdir(mode=0o755)
    yield await open_site(folder, database_url, redis_url, place, s3, {})
