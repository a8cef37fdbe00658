"""What a workspace can reach, tried from inside one: nothing of this machine, no neighbour, no private address.

Each listener that must not be reached is first seen to be reachable from the machine itself.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

import httpx
import pytest

from codehub.drivers.docker import DockerDriver, DockerOptions, Outbound
from codehub.drivers.docker.options import WorkspaceImage
from codehub.errors import ActionFailed
from codehub.model.names import instance_name
from codehub.model.observation import Life
from codehub.model.workspace import ArchiveKey
from tests.drivers_docker.conftest import FolderStore, Home, JobUrls, make_home
from tests.drivers_docker.surroundings import (
    INTERNET,
    LINK_LOCAL,
    METADATA,
    PORT,
    PRIVATE,
    connects,
    fetch,
    gateway_of,
    listening,
    outside,
    own_address,
)
from tests.lab.docker import Lab
from tests.support import eventually_async


@dataclass
class Pair:
    """Two running workspaces of one installation."""

    driver: DockerDriver
    options: DockerOptions
    one: str
    two: str
    homes: list[Home]


@pytest.fixture(scope="module", params=list(Outbound))
async def pair(lab: Lab, store: FolderStore, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    with lab.installation(outbound=request.param) as options:
        driver = DockerDriver(options, store.job_urls)
        await driver.prepare()
        homes = [await make_home(driver) for _ in range(2)]
        one, two = [await home.start() for home in homes]
        yield Pair(driver, options, one, two, homes)
        await driver.close()


async def test_from_this_machine_a_workspace_is_reached(pair: Pair) -> None:
    for address, home in zip((pair.one, pair.two), pair.homes, strict=True):
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://{address}/")).text == str(home.id)


async def test_from_this_machine_any_port_of_a_workspace_is_reached_and_from_no_neighbour(lab: Lab, pair: Pair) -> None:
    """A forwarded port: whatever the user starts in there, at the address of the endpoint."""
    host, _, _ = pair.one.partition(":")
    for port in (81, 3128, 5000, 65535):
        command = ["python3", "-m", "http.server", str(port)]
        path = f"/containers/{instance_name(pair.homes[0].id)}/exec"
        execution = lab.call("POST", path, {"Cmd": command}).raise_for_status().json()["Id"]
        lab.call("POST", f"/exec/{execution}/start", {"Detach": True}).raise_for_status()
        await eventually_async(partial(_serves, f"http://{host}:{port}/"), f"port {port} serves")
        assert await fetch(pair.two, host, port) == "timeout"


async def _serves(url: str) -> bool:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            return (await client.get(url)).status_code == 200
    except httpx.ConnectError:
        return False


async def test_workspaces_do_not_reach_each_other(pair: Pair) -> None:
    attempts = []
    for source, target in ((pair.one, pair.two), (pair.two, pair.one)):
        host, port = target.split(":")
        attempts += [fetch(source, host, int(port)), fetch(source, host, 9999)]
    assert await asyncio.gather(*attempts) == ["timeout"] * 4
    host, port = pair.one.split(":")
    assert await fetch(pair.one, host, int(port)) == "open"  # itself it does reach: the probe works


async def test_no_service_of_this_machine_is_reached(lab: Lab, pair: Pair) -> None:
    gateway, own = gateway_of(lab, pair.options), own_address()
    with (
        listening("127.0.0.1") as loopback,
        listening(gateway) as bridge,
        listening(own) as lan,
        listening("0.0.0.0") as everywhere,
    ):
        targets = [("127.0.0.1", loopback), (gateway, bridge), (own, lan)]
        targets += [(host, everywhere) for host in (gateway, own, "127.0.0.1")]
        results = await asyncio.gather(*(fetch(pair.one, host, port) for host, port in targets))
    assert "open" not in results, dict(zip(targets, results, strict=True))


async def test_the_engine_is_not_reached(lab: Lab, pair: Pair) -> None:
    gateway = gateway_of(lab, pair.options)
    results = await asyncio.gather(*(fetch(pair.one, gateway, port) for port in (2375, 2376, 22, 53, 5432, 6379, 8080)))
    assert "open" not in results


async def test_the_metadata_address_is_not_reached(pair: Pair) -> None:
    assert await fetch(pair.one, METADATA, 80) != "open"


async def test_outbound_is_what_the_policy_says(pair: Pair) -> None:
    hosts = (INTERNET, LINK_LOCAL, PRIVATE)
    with outside(hosts):
        assert all(connects(host, PORT) for host in hosts)
        internet, link_local, private = await asyncio.gather(*(fetch(pair.one, host, PORT) for host in hosts))
    assert "open" not in (link_local, private)
    assert (internet == "open") == (pair.options.outbound is Outbound.INTERNET)


async def test_names_are_not_carried_out_without_outbound(pair: Pair) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        mine = await client.get(f"http://{pair.one}/resolve", params={"host": "workspace"})
        assert mine.text == pair.one.split(":")[0]  # the resolver works
        if pair.options.outbound is Outbound.NONE:
            assert (await client.get(f"http://{pair.one}/resolve", params={"host": "example.org"})).text == ""


async def test_rules_that_somebody_flushed_are_put_up_again(lab: Lab, pair: Pair) -> None:
    gateway = gateway_of(lab, pair.options)
    with listening(gateway) as port:
        flush = ["nft", "delete", "table", "inet", pair.options.table]
        lab.run(lab.guard_image, flush, NetworkMode="host", CapAdd=["NET_ADMIN"])
        assert await fetch(pair.one, gateway, port) == "open"  # so it is the rules that keep it closed
        pair.driver._network.doubt()
        await pair.driver.prepare()
        assert await fetch(pair.one, gateway, port) == "timeout"


async def test_it_says_what_is_in_force(pair: Pair) -> None:
    text = " ".join(pair.driver.isolation())
    assert "NOT" not in text
    assert "The disk space of a home is not limited." in text
    assert ("no outbound network" in text) == (pair.options.outbound is Outbound.NONE)


async def test_without_isolation_nothing_starts(lab: Lab, store: FolderStore) -> None:
    with lab.installation(guard_image=lab.workspace_image) as options:
        driver = DockerDriver(options, store.job_urls)
        assert "NOT isolated" in driver.isolation()[0]
        home = await make_home(driver)
        with pytest.raises(ActionFailed):
            await driver.instances.start(home.id, home.spec())
        assert (await driver.instances.look(home.id)).life is None
        assert "NOT isolated" in driver.isolation()[0]
        await driver.close()


async def test_isolation_can_be_waived_and_that_is_said(lab: Lab, store: FolderStore) -> None:
    with lab.installation(guard_image="codehub/absent:1", require_isolation=False) as options:
        driver = DockerDriver(options, store.job_urls)
        home = await make_home(driver)
        await home.start()
        assert (await driver.instances.look(home.id)).life is Life.READY
        assert "NOT isolated" in driver.isolation()[0]
        await driver.close()


async def test_a_network_of_another_policy_is_made_anew(lab: Lab, store: FolderStore) -> None:
    with lab.installation(outbound=Outbound.INTERNET) as options:
        first = DockerDriver(options, store.job_urls)
        await first.prepare()
        changed = DockerOptions(
            installation=options.installation,
            host=options.host,
            images={"quick": WorkspaceImage(lab.workspace_image)},
            job_image=options.job_image,
            guard_image=options.guard_image,
            outbound=Outbound.NONE,
        )
        second = DockerDriver(changed, store.job_urls)
        await second.prepare()
        assert lab.call("GET", f"/networks/{options.network}").json()["Internal"] is True
        await first.close()
        await second.close()


async def test_jobs_reach_the_store_and_nothing_else(lab: Lab, store: FolderStore) -> None:
    own = own_address()
    with listening(own) as port, listening(own) as other_port:

        def urls(key: ArchiveKey) -> JobUrls:
            return JobUrls(f"s3://b/{key}", f"s3://b/{key}.meta", {"endpoint": f"http://{own}:{port}"})

        with lab.installation() as options:
            driver = DockerDriver(options, urls)
            await driver.prepare()
            gateway = lab.call("GET", f"/networks/{options.job_network}").json()["IPAM"]["Config"][0]["Gateway"]
            targets = [(own, port), (own, other_port), (gateway, other_port), (METADATA, 80)]
            program = (
                "import sys; sys.path.insert(0, '/srv'); import asyncio, server\n"
                f"print([asyncio.run(server.fetch(*target)) for target in {targets!r}])"
            )
            command = ["python3", "-c", program]
            text = await asyncio.to_thread(lab.run, lab.workspace_image, command, NetworkMode=options.job_network)
            await driver.close()
    assert text.strip().startswith("['open', 'timeout', 'timeout', "), text
    assert text.count("open") == 1
