"""A leader that was paused between its look and its deletion destroys nothing: each test fails without the fence."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.access import find_access
from codehub.drivers.kubernetes.api import Cluster, Json
from codehub.drivers.kubernetes.pods import Pods
from codehub.drivers.kubernetes.volumes import KubernetesVolumes
from codehub.drivers.kubernetes.watch import PodWatch
from codehub.errors import Refused
from codehub.model.workspace import OpId, VolumeRef
from tests.k8s.driver import Case, opened
from tests.lab.k8s import Lab
from tests.support import eventually

OP = OpId(uuid4())
INCARNATION = "one and the same"


class Paused(Cluster):
    """Something happens between the look and the deletion that follows from it, once."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def delete(self, kind: str, name: str, *, uid: str, version: str | None = None, grace: int = 0) -> None:
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        await super().delete(kind, name, uid=uid, version=version, grace=grace)


async def test_a_home_that_was_made_again_is_not_deleted(lab: Lab) -> None:
    async with opened(lab) as (driver, options):
        case = Case(driver)
        old = await case.volume(INCARNATION)
        new: list[VolumeRef] = []

        async def replace() -> None:
            await driver.volumes.delete(case.id, old)
            new.append(await case.volume(INCARNATION))

        paused = Paused(find_access(options.kubeconfig, None), driver.cluster.namespace, options.patience)
        paused.meanwhile = replace
        with pytest.raises(Refused):
            await KubernetesVolumes(paused, options).delete(case.id, old)
        await paused.close()
        assert (await driver.volumes.look(case.id)).ref == new[0] != old


async def test_a_home_that_somebody_entered_is_not_deleted(lab: Lab) -> None:
    async with opened(lab) as (driver, options):
        case = Case(driver)
        volume = await case.volume()
        paused = Paused(find_access(options.kubeconfig, None), driver.cluster.namespace, options.patience)
        paused.meanwhile = lambda: case.start(volume)
        with pytest.raises(Refused, match="in use by"):
            await KubernetesVolumes(paused, options).delete(case.id, volume)
        await paused.close()
        claim = lab.get(driver.cluster.namespace, "pvc", f"ws-{case.id}-home")
        assert "deletionTimestamp" not in claim["metadata"]
        await driver.instances.remove(case.id)


class Died(Exception):
    """Of the process, as far as its pods can tell."""


class Dying(Cluster):
    """Dies when it is to open a pod."""

    async def create(self, kind: str, body: Json, *, group: str = "", dry_run: bool = False) -> Json:
        if kind == "secrets":
            raise Died
        return await super().create(kind, body, group=group, dry_run=dry_run)


async def test_a_pod_that_nobody_opened_runs_nothing_and_is_opened_by_the_next(lab: Lab) -> None:
    async with opened(lab) as (driver, options):
        case = Case(driver)
        volume = await case.volume()
        dying = Dying(find_access(options.kubeconfig, None), driver.cluster.namespace, options.patience)
        volumes, watch = KubernetesVolumes(dying, options), PodWatch(dying, m.selector(options.installation))
        pods = Pods(dying, options, volumes, watch)
        body = m.job_pod(options, case.id, volume.uid or "", op_id=OP, gate=pods.new_gate(case.id))
        made = await pods.make(body)
        assert made is not None
        with pytest.raises(Died):
            await pods.open(made, b"{}")
        await dying.close()
        name = body["metadata"]["name"]
        await asyncio.sleep(3)  # nothing is to happen, and for that there is no event
        pod = lab.get(driver.cluster.namespace, "pod", name)
        assert (pod["status"]["phase"], "podIP" in pod["status"]) == ("Pending", False)
        with pytest.raises(Refused):
            await case.start(volume)  # it may be opened at any time
        await driver.jobs.archive(case.id, OP, volume)
        eventually(
            lambda: lab.get(driver.cluster.namespace, "pod", name)["status"]["phase"] != "Pending", "it runs", 60
        )
        assert lab.get(driver.cluster.namespace, "pod", name)["metadata"]["uid"] == made.uid
        await driver.jobs.remove(case.id, OP)
