"""Workspaces as containers, on a real engine."""

from dataclasses import replace

import httpx
import pytest

from codehub.drivers.docker import DockerDriver, DockerOptions, WorkspaceImage
from codehub.errors import ActionFailed, Refused, TerminalError
from codehub.model.names import instance_name, volume_name
from codehub.model.observation import Life
from codehub.model.workspace import Incarnation, VolumeRef
from tests.drivers_docker.conftest import FolderStore, Home, exists, make_home, new_workspace
from tests.lab.docker import Lab


async def get(address: str, path: str = "/") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return await client.get(f"http://{address}{path}")


async def test_start_returns_when_it_takes_traffic(driver: DockerDriver, home: Home) -> None:
    spec = home.spec()
    await driver.instances.start(home.id, spec)
    seen = (await driver.instances.observe())[home.id]
    assert (seen.life, seen.op_id) == (Life.READY, spec.op_id)
    assert seen.endpoint is not None
    assert (await get(seen.endpoint)).text == str(home.id)


async def test_a_workspace_has_no_rights(home: Home) -> None:
    me = (await get(await home.start(), "/whoami")).json()
    assert me == {
        "uid": "1000",
        "gid": "1000",
        "capabilities": "0000000000000000",
        "no_new_privileges": "1",
        "root_is_writable": "False",
        "tmp_is_writable": "True",
    }


async def test_what_the_engine_was_told_to_enforce(lab: Lab, home: Home) -> None:
    await home.start()
    host = lab.call("GET", f"/containers/{instance_name(home.id)}/json").json()["HostConfig"]
    assert host["NanoCpus"] == 2_000_000_000
    assert host["Memory"] == host["MemorySwap"] == 4 << 30
    assert host["PidsLimit"] == 1024
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["Privileged"] is False
    assert not host["Binds"]
    assert not host["PortBindings"]


async def test_a_living_one_is_left_alone(driver: DockerDriver, home: Home) -> None:
    first = home.spec()
    await driver.instances.start(home.id, first)
    await driver.instances.start(home.id, home.spec())
    assert (await driver.instances.look(home.id)).op_id == first.op_id


async def test_a_dead_one_is_made_again_with_the_same_home(lab: Lab, driver: DockerDriver, home: Home) -> None:
    address = await home.start()
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.put(f"http://{address}/files/a/b.txt", content=b"kept")).status_code == 201
    lab.call("POST", f"/containers/{instance_name(home.id)}/kill")
    assert (await driver.instances.look(home.id)).life is Life.DEAD
    second = home.spec()
    await driver.instances.start(home.id, second)
    seen = await driver.instances.look(home.id)
    assert (seen.life, seen.op_id) == (Life.READY, second.op_id)
    assert (await get(str(seen.endpoint), "/files/a/b.txt")).text == "kept"


async def test_one_that_was_made_and_never_started_is_made_again(lab: Lab, driver: DockerDriver, home: Home) -> None:
    await home.start()
    made = lab.call("GET", f"/containers/{instance_name(home.id)}/json").json()
    await driver.instances.remove(home.id)
    body = {"Image": made["Config"]["Image"], "Labels": made["Config"]["Labels"]}
    lab.call("POST", "/containers/create", body, name=instance_name(home.id)).raise_for_status()
    assert (await driver.instances.look(home.id)).life is Life.DEAD
    await home.start()


async def test_removal_leaves_no_process(lab: Lab, driver: DockerDriver, home: Home) -> None:
    await home.start()
    titles = lab.call("GET", f"/containers/{instance_name(home.id)}/top", ps_args="-eo pid").json()
    pids = [row[0] for row in titles["Processes"]]
    assert len(pids) >= 4  # init, the server, two children
    await driver.instances.remove(home.id)
    assert not exists(lab, "container", instance_name(home.id))
    assert exists(lab, "volume", volume_name(home.id))
    await driver.instances.remove(home.id)
    assert (await driver.instances.look(home.id)).life is None


async def test_without_the_volume_nothing_starts_and_no_volume_appears(lab: Lab, driver: DockerDriver) -> None:
    home = await make_home(driver)
    await driver.volumes.delete(home.id, home.volume)
    with pytest.raises(Refused):
        await driver.instances.start(home.id, home.spec())
    assert not exists(lab, "volume", volume_name(home.id))
    assert not exists(lab, "container", instance_name(home.id))


async def test_another_volume_than_the_named_one_is_refused(driver: DockerDriver, home: Home) -> None:
    for wrong in (VolumeRef(Incarnation("other"), None), VolumeRef(home.volume.incarnation, "other")):
        spec = replace(home.spec(), volume=wrong)
        with pytest.raises(Refused):
            await driver.instances.start(home.id, spec)


@pytest.mark.parametrize("image_ref", ["missing", "debian:trixie-slim", ""])
async def test_an_image_that_cannot_be_had(driver: DockerDriver, home: Home, image_ref: str) -> None:
    with pytest.raises(TerminalError) as caught:
        await driver.instances.start(home.id, home.spec(image_ref))
    assert caught.value.reason == "ImagePullFailed"
    assert (await driver.instances.look(home.id)).life is None


async def test_one_that_ends_at_once_says_its_last_words(
    lab: Lab, options: DockerOptions, store: FolderStore, home: Home
) -> None:
    broken = replace(options, images={"quick": WorkspaceImage(lab.guard_image)})
    driver = DockerDriver(broken, store.job_urls)
    with pytest.raises(ActionFailed, match="ended"):
        await driver.instances.start(home.id, home.spec())
    await driver.close()


async def test_logs(driver: DockerDriver, home: Home) -> None:
    assert await driver.instances.logs(home.id, 10) == ""
    await home.start()
    assert (await driver.instances.logs(home.id, 10)).splitlines() == ["listening"]


async def test_a_new_process_sees_the_same(options: DockerOptions, store: FolderStore, home: Home) -> None:
    await home.start()
    other = DockerDriver(options, store.job_urls)
    seen = (await other.instances.observe())[home.id]
    assert seen.life is Life.READY
    assert seen == await home.driver.instances.look(home.id)
    await other.close()


async def test_other_installations_are_neither_seen_nor_touched(lab: Lab, store: FolderStore, home: Home) -> None:
    await home.start()
    with lab.installation() as options:
        other = DockerDriver(options, store.job_urls)
        assert await other.instances.observe() == {}
        assert await other.volumes.observe() == {}
        assert await other.jobs.observe() == {}
        with pytest.raises(Refused):
            await other.instances.remove(home.id)
        with pytest.raises(Refused):
            await other.volumes.create(home.id, Incarnation("mine"))
        with pytest.raises(Refused):
            await other.volumes.delete(home.id, home.volume)
        await other.close()
    assert (await home.driver.instances.look(home.id)).life is Life.READY
    assert (await home.driver.volumes.look(home.id)).exists


async def test_things_that_only_look_like_ours_are_left_out(
    lab: Lab, options: DockerOptions, driver: DockerDriver
) -> None:
    labels = {"codehub.installation": options.installation, "codehub.role": "workspace"}
    stranger = new_workspace()
    before = await driver.instances.observe(), await driver.volumes.observe()
    names = {
        "ws-not-an-id": "not-an-id",
        "other": str(stranger),
        f"ws-{stranger}": "",
        f"ws-{stranger}-x": str(stranger),
    }
    try:
        for name, workspace in names.items():
            body = {"Image": lab.workspace_image, "Labels": labels | {"codehub.workspace": workspace}}
            lab.call("POST", "/containers/create", body, name=name).raise_for_status()
        lab.call("POST", "/volumes/create", {"Name": "ws-not-an-id-home", "Labels": labels}).raise_for_status()
        assert (await driver.instances.observe(), await driver.volumes.observe()) == before
    finally:
        for name in names:
            lab.call("DELETE", f"/containers/{name}", force=1)
        lab.call("DELETE", "/volumes/ws-not-an-id-home")


async def test_events_wake(driver: DockerDriver, home: Home) -> None:
    events = driver.instances.events()
    await anext(events)
    await home.start()
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]  # it is a generator
