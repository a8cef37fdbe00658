"""What a workspace's pod is from inside, what it reaches, and what people are told when it cannot be had."""

import asyncio
import json
from pathlib import Path

import pytest

from codehub.drivers.base import Resources
from codehub.drivers.kubernetes.options import Patience
from codehub.errors import ActionFailed, Unreachable
from codehub.model.observation import Life
from tests.crash.site import ask
from tests.k8s.driver import Case, opened
from tests.lab.k8s import Lab

HASTY = Patience(pending=6.0, ready=20.0)


async def test_from_inside(lab: Lab) -> None:
    """uid 1000 without privileges, on a home that root owned; no token; the API server knows it as nobody."""
    async with opened(lab) as (driver, _):
        case = Case(driver)
        await case.start(await case.volume())
        endpoint = await case.endpoint()
        who = json.loads(await ask(endpoint, "GET", "/whoami"))
        assert (who["uid"], who["gid"], int(who["capabilities"], 16), who["no_new_privileges"]) == (
            "1000",
            "1000",
            0,
            "1",
        )
        assert (who["root_is_writable"], who["tmp_is_writable"]) == ("False", "True")
        await ask(endpoint, "PUT", "/files/kept", b"1")
        home = await asyncio.to_thread(lab.home, driver.cluster.namespace, f"ws-{case.id}-home")
        assert (owner(home), owner(home / "kept")) == (1000, 1000)

        inside = ["exec", "-n", driver.cluster.namespace, f"ws-{case.id}", "--"]
        mounted = lab.run(*inside, "ls", "/var/run/secrets", check=False)
        assert "kubernetes.io" not in mounted
        status = lab.run(
            *inside,
            "python3",
            "-c",
            "import http.client, os, ssl\n"
            "c = http.client.HTTPSConnection(os.environ['KUBERNETES_SERVICE_HOST'], timeout=5,"
            " context=ssl._create_unverified_context())\n"
            "c.request('GET', '/api/v1/secrets'); print(c.getresponse().status)",
        )
        assert status.strip() in ("401", "403")

        await driver.instances.remove(case.id)
        await case.start((await driver.volumes.look(case.id)).ref)
        pod = lab.get(driver.cluster.namespace, "pod", f"ws-{case.id}")
        assert "initContainers" not in pod["spec"]  # the home is its own by now
        assert await ask(await case.endpoint(), "GET", "/files/kept") == b"1"
        await driver.instances.remove(case.id)


def owner(path: Path) -> int:
    return path.stat().st_uid


async def test_that_this_network_enforces_nothing_is_found_out(lab: Lab) -> None:
    """The lab's bridge knows no policies: two workspaces do reach each other, and that is what /readyz says."""
    async with opened(lab) as (driver, _):
        assert "not known yet" in driver.isolation()[0]
        await driver.prepare()
        [sentence] = driver.isolation()
        assert sentence.startswith("WARNING: the cluster's network does not enforce network policies")
        one, two = Case(driver), Case(driver)
        for case in (one, two):
            await case.start(await case.volume())
        host, _, port = (await two.endpoint()).rpartition(":")
        assert await ask(await one.endpoint(), "GET", f"/fetch?host={host}&port={port}") == b"open"
        assert len(lab.get(driver.cluster.namespace, "networkpolicy")) == 3

        for case in (one, two):
            await driver.instances.remove(case.id)


async def test_nothing_starts_where_isolation_is_required_and_not_there(lab: Lab) -> None:
    async with opened(lab, require_isolation=True) as (driver, _):
        case = Case(driver)
        volume = await case.volume()
        with pytest.raises(ActionFailed, match="does not enforce network policies"):
            await case.start(volume)
        assert not (await driver.instances.look(case.id)).exists


async def test_too_much_memory_is_told(lab: Lab) -> None:
    async with opened(lab) as (driver, _):
        case = Case(driver)
        with pytest.raises(ActionFailed, match="used more memory than it may"):
            await case.start(await case.volume(), Resources(cpus=1.0, memory_bytes=16 << 20))
        seen = await driver.instances.look(case.id)
        assert (seen.life, "more memory" in seen.message) == (Life.DEAD, True)
        await driver.instances.remove(case.id)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"node_selector": {"no": "such"}}, "No node can take it"),
        ({"requested_cpus": 1.0, "requested_memory": 1 << 44}, "No node has room for it"),
        ({"storage_class": "absent"}, "not provided its home volume"),
    ],
)
async def test_a_pod_that_cannot_be_had_is_explained(lab: Lab, more: dict[str, object], words: str) -> None:
    async with opened(lab, patience=HASTY, **more) as (driver, _):
        case = Case(driver)
        with pytest.raises(ActionFailed, match=words):
            await case.start(await case.volume(), Resources(cpus=1.0, memory_bytes=None))
        seen = await driver.instances.look(case.id)
        assert (seen.life, words in seen.message) == (Life.ALIVE, True)
        await driver.instances.remove(case.id)


async def test_a_quota_is_explained(lab: Lab) -> None:
    async with opened(lab) as (driver, _):
        lab.run("create", "quota", "few", "--hard=pods=0,persistentvolumeclaims=1", "-n", driver.cluster.namespace)
        case, other = Case(driver), Case(driver)
        volume = await case.volume()
        with pytest.raises(Unreachable, match="quota is used up: few"):
            await case.start(volume)
        with pytest.raises(Unreachable, match="quota is used up: few"):
            await other.volume()
