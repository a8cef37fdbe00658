"""A quota of the namespace that is used up is waited for; any other refusal counts."""

from uuid import UUID

import pytest

from codehub.drivers.kubernetes.pods import Pods
from codehub.drivers.kubernetes.volumes import KubernetesVolumes
from codehub.drivers.kubernetes.watch import PodWatch
from codehub.errors import ActionFailed, DriverError, Unreachable
from codehub.model.workspace import Incarnation, WorkspaceId
from tests.drivers_kubernetes.scripted import failed, server
from tests.drivers_kubernetes.test_manifests import options

USED_UP = 'pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'
REFUSALS = [(USED_UP, Unreachable), ("x is forbidden: no such service account", ActionFailed)]


@pytest.mark.parametrize(("words", "error"), REFUSALS)
async def test_a_volume_that_is_not_taken(words: str, error: type[DriverError]) -> None:
    async with server(lambda _: failed(403, "Forbidden", words)) as (cluster, _):
        volumes = KubernetesVolumes(cluster, options())
        with pytest.raises(error, match="is not made"):
            await volumes.create(WorkspaceId(UUID(int=1)), Incarnation("i"))


@pytest.mark.parametrize(("words", "error"), REFUSALS)
async def test_a_pod_that_is_not_taken(words: str, error: type[DriverError]) -> None:
    async with server(lambda _: failed(403, "Forbidden", words)) as (cluster, _):
        given = options()
        pods = Pods(cluster, given, KubernetesVolumes(cluster, given), PodWatch(cluster, ""))
        with pytest.raises(error, match="is not made"):
            await pods.make({"metadata": {"name": "x"}})
