"""A driver on the lab's cluster for tests that look at it alone, without a coordinator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from codehub.drivers.archives import JobUrls
from codehub.drivers.base import InstanceSpec, Resources
from codehub.drivers.kubernetes import KubernetesDriver, KubernetesOptions
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef, WorkspaceId
from tests.lab.k8s import Lab

SMALL = Resources(cpus=1.0, memory_bytes=256 << 20)


def urls(key: ArchiveKey) -> JobUrls:
    """A store that is nowhere: these tests run no job to its end."""
    store = {"endpoint": "http://192.0.2.1:9", "access_key_id": "a", "secret_access_key": "b", "allow_http": True}
    return JobUrls(f"s3://bucket/{key}", f"s3://bucket/{key}.meta", store)


@dataclass
class Case:
    """One workspace."""

    driver: KubernetesDriver
    id: WorkspaceId = field(default_factory=lambda: WorkspaceId(uuid4()))

    async def volume(self, incarnation: str | None = None) -> VolumeRef:
        await self.driver.volumes.create(self.id, Incarnation(incarnation or str(uuid4())))
        return (await self.driver.volumes.look(self.id)).ref

    async def start(self, volume: VolumeRef, resources: Resources = SMALL) -> None:
        spec = InstanceSpec(op_id=OpId(uuid4()), image_ref="quick", volume=volume, resources=resources)
        await self.driver.instances.start(self.id, spec)

    async def endpoint(self) -> str:
        found = (await self.driver.instances.look(self.id)).endpoint
        assert found is not None
        return found


@asynccontextmanager
async def opened(lab: Lab, **more: Any) -> AsyncIterator[tuple[KubernetesDriver, KubernetesOptions]]:
    """A driver in a namespace of its own."""
    with lab.namespace() as namespace:
        options = lab.options(namespace=namespace, **more)
        driver = KubernetesDriver(options, urls)
        try:
            yield driver, options
        finally:
            await driver.close()
