"""Homes and their anchors, on a real engine: what may destroy a home, and what may make one up."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.drivers.docker import spec as bodies
from codehub.errors import ActionFailed, Refused
from codehub.model.names import instance_name, volume_name
from codehub.model.workspace import Incarnation, VolumeRef
from tests.drivers_docker.conftest import FolderStore, Home, exists, make_home, new_workspace
from tests.lab.docker import Lab
from tests.lab.wire import mended, wire_to_socket
from tests.support import short_folder


def new_incarnation() -> Incarnation:
    return Incarnation(str(uuid4()))


def anchor_id(lab: Lab, home: Home) -> str:
    return str(lab.call("GET", f"/containers/{bodies.anchor_name(home.id)}/json").json()["Id"])


def lose_anchor(lab: Lab, home: Home) -> None:
    """As `docker container prune` does."""
    lab.call("DELETE", f"/containers/{bodies.anchor_name(home.id)}").raise_for_status()


def lose_volume(lab: Lab, home: Home) -> None:
    lose_anchor(lab, home)
    lab.call("DELETE", f"/volumes/{volume_name(home.id)}").raise_for_status()


async def test_a_new_home_is_labelled_held_and_its_users(lab: Lab, options: DockerOptions, home: Home) -> None:
    volume = lab.call("GET", f"/volumes/{volume_name(home.id)}").json()
    labels = {
        "codehub.installation": options.installation,
        "codehub.workspace": str(home.id),
        "codehub.incarnation": home.volume.incarnation,
        "codehub.uid": home.volume.uid,
    }
    assert volume["Labels"] == labels
    anchor = lab.call("GET", f"/containers/{bodies.anchor_name(home.id)}/json").json()
    assert anchor["Config"]["Labels"] == labels | {"codehub.role": "anchor"}
    assert anchor["State"]["Status"] == "created"
    text = lab.run(lab.workspace_image, ["stat", "-c", "%u %g %a", bodies.HOME], VolumesFrom=[anchor["Id"]])
    assert text.split() == ["1000", "1000", "700"]


async def test_create_again_changes_nothing(driver: DockerDriver, home: Home) -> None:
    await driver.volumes.create(home.id, home.volume.incarnation)
    assert (await driver.volumes.look(home.id)).ref == home.volume


async def test_create_of_another_incarnation_is_refused(driver: DockerDriver, home: Home) -> None:
    with pytest.raises(Refused):
        await driver.volumes.create(home.id, new_incarnation())
    assert (await driver.volumes.look(home.id)).ref == home.volume


async def test_many_creators_make_one_volume(options: DockerOptions, store: FolderStore, driver: DockerDriver) -> None:
    workspace_id = new_workspace()
    incarnations = [new_incarnation() for _ in range(8)]
    others = [DockerDriver(options, store.job_urls) for _ in incarnations]
    calls = [other.volumes.create(workspace_id, inc) for other, inc in zip(others, incarnations, strict=True)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    found = await driver.volumes.look(workspace_id)
    winners = [inc for inc, result in zip(incarnations, results, strict=True) if result is None]
    assert winners in ([found.incarnation], [])
    assert all(result is None or isinstance(result, Refused | ActionFailed) for result in results), results
    await driver.volumes.delete(workspace_id, found.ref)
    for other in others:
        await other.close()


async def test_delete_takes_volume_and_anchor(lab: Lab, driver: DockerDriver) -> None:
    home = await make_home(driver)
    for _ in range(2):
        await driver.volumes.delete(home.id, home.volume)
        assert not exists(lab, "volume", volume_name(home.id))
        assert not exists(lab, "container", bodies.anchor_name(home.id))
    seen = await driver.volumes.look(home.id)
    assert (seen.exists, seen.confirmed) == (False, True)


async def test_delete_of_another_is_refused(driver: DockerDriver, home: Home) -> None:
    for wrong in (VolumeRef(new_incarnation(), None), VolumeRef(home.volume.incarnation, str(uuid4()))):
        with pytest.raises(Refused):
            await driver.volumes.delete(home.id, wrong)
    assert (await driver.volumes.look(home.id)).ref == home.volume


async def test_delete_while_in_use_is_refused_and_keeps_the_anchor(lab: Lab, driver: DockerDriver, home: Home) -> None:
    await home.start()
    with pytest.raises(Refused):
        await driver.volumes.delete(home.id, home.volume)
    assert exists(lab, "container", bodies.anchor_name(home.id))
    await driver.instances.remove(home.id)
    await driver.volumes.delete(home.id, home.volume)


async def test_the_engine_itself_refuses_to_remove_a_held_home(lab: Lab, home: Home) -> None:
    assert lab.call("DELETE", f"/volumes/{volume_name(home.id)}", force=1).status_code == 409
    lab.call("POST", "/volumes/prune")
    assert exists(lab, "volume", volume_name(home.id))


@asynccontextmanager
async def on_a_wire(
    lab: Lab, options: DockerOptions, store: FolderStore, request: str, then: Callable[[], Coroutine[Any, Any, object]]
) -> AsyncIterator[DockerDriver]:
    """A driver whose first request that begins like this arrives at the engine only after `then`."""
    wire = wire_to_socket(short_folder() / "engine.sock", Path(lab.host.removeprefix("unix://")))
    met = False

    async def hear(data: bytes) -> None:
        nonlocal met
        head = re.match(rb"(\S+) (?:/v[0-9.]+)?(\S+ )HTTP", data)
        if head is not None and not met and b" ".join(head.groups()).startswith(request.encode()):
            met = True
            await then()

    wire.hear = hear
    async with mended(wire):
        driver = DockerDriver(replace(options, host=f"unix://{wire.path}"), store.job_urls)
        yield driver
        await driver.close()
    assert met, "it was not asked for"


class Pause:
    """Of an ex-leader, in the middle of a call."""

    def __init__(self) -> None:
        self.begun, self.over = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        await self.over.wait()

    async def end(self, call: "asyncio.Task[None]") -> None:
        """The call goes on, and ends in whatever way."""
        self.over.set()
        await asyncio.wait_for(asyncio.wait({call}), 30)
        call.exception()


@pytest.mark.parametrize("stopped_at", ["/containers/", "/volumes/"])
async def test_a_paused_ex_leader_cannot_remove_the_next_home(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver, stopped_at: str
) -> None:
    """It stops before its last calls; meanwhile the new leader removes the home and makes another; then it goes on."""
    home, pause = await make_home(driver), Pause()
    async with on_a_wire(lab, options, store, f"DELETE {stopped_at}", pause) as old:
        removing = asyncio.create_task(old.volumes.delete(home.id, home.volume))
        await asyncio.wait_for(pause.begun.wait(), 30)
        await driver.volumes.delete(home.id, home.volume)
        incarnation = new_incarnation()
        await driver.volumes.create(home.id, incarnation)
        new = (await driver.volumes.look(home.id)).ref
        await pause.end(removing)
        assert (await driver.volumes.look(home.id)).ref == new
        with pytest.raises(Refused):
            await old.volumes.delete(home.id, home.volume)
        assert (await driver.volumes.look(home.id)).ref == new
    await driver.volumes.delete(home.id, new)


async def test_a_paused_ex_leader_cannot_start_on_the_next_home(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver
) -> None:
    """It holds the old anchor's id; the home was replaced before its create call reached the engine."""
    home, pause = await make_home(driver), Pause()
    create = f"POST /containers/create?name={instance_name(home.id)} "
    async with on_a_wire(lab, options, store, create, pause) as old:
        await old.prepare()
        starting = asyncio.create_task(old.instances.start(home.id, home.spec()))
        await asyncio.wait_for(pause.begun.wait(), 30)
        await driver.volumes.delete(home.id, home.volume)
        await driver.volumes.create(home.id, new_incarnation())
        await pause.end(starting)
        assert starting.exception() is not None
        assert not exists(lab, "container", instance_name(home.id))
    await driver.volumes.delete(home.id, (await driver.volumes.look(home.id)).ref)


async def test_a_volume_lost_behind_our_back_is_not_made_up(lab: Lab, driver: DockerDriver) -> None:
    home = await make_home(driver)
    lose_volume(lab, home)
    with pytest.raises(Refused):
        await driver.instances.start(home.id, home.spec())
    with pytest.raises(Refused):
        await driver.jobs.archive(home.id, home.spec().op_id, home.volume)
    assert not exists(lab, "volume", volume_name(home.id))
    await driver.volumes.delete(home.id, home.volume)


async def test_a_volume_lost_just_before_it_is_mounted_is_not_made_up(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver
) -> None:
    """The race: it is there when we look and gone when the container is made."""
    home = await make_home(driver)

    async def lose() -> None:
        lose_volume(lab, home)

    create = f"POST /containers/create?name={instance_name(home.id)} "
    async with on_a_wire(lab, options, store, create, lose) as other:
        await other.prepare()
        with pytest.raises(Refused):
            await other.instances.start(home.id, home.spec())
        assert not exists(lab, "volume", volume_name(home.id))
        assert not exists(lab, "container", instance_name(home.id))


async def test_a_volume_lost_just_before_its_anchor_is_made_again_is_not_made_up(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver
) -> None:
    """The race once more, with an anchor that had been pruned: the engine makes a volume for the new anchor."""
    home = await make_home(driver)
    lose_anchor(lab, home)

    async def lose() -> None:
        lab.call("DELETE", f"/volumes/{volume_name(home.id)}").raise_for_status()

    create = f"POST /containers/create?name={bodies.anchor_name(home.id)} "
    async with on_a_wire(lab, options, store, create, lose) as other:
        with pytest.raises(Refused):
            await other.instances.start(home.id, home.spec())
        assert not exists(lab, "volume", volume_name(home.id))
        assert not exists(lab, "container", bodies.anchor_name(home.id))


async def test_a_pruned_anchor_is_made_again(lab: Lab, driver: DockerDriver, home: Home) -> None:
    for heal in (home.start, driver.prepare):
        lose_anchor(lab, home) if heal == home.start else None
        await heal()
        assert exists(lab, "container", bodies.anchor_name(home.id))
    await driver.instances.remove(home.id)
    lose_anchor(lab, home)
    await driver.prepare()
    assert exists(lab, "container", bodies.anchor_name(home.id))
    assert (await driver.volumes.look(home.id)).ref == home.volume


async def test_a_home_whose_removal_was_cut_short_is_removed_after_all(lab: Lab, driver: DockerDriver) -> None:
    home = await make_home(driver)
    lose_anchor(lab, home)
    await driver.volumes.delete(home.id, home.volume)
    assert not exists(lab, "volume", volume_name(home.id))
    assert not exists(lab, "container", bodies.anchor_name(home.id))


async def test_a_volume_without_labels_is_seen_and_taken_for_nobodys(lab: Lab, driver: DockerDriver) -> None:
    workspace_id = new_workspace()
    lab.call("POST", "/volumes/create", {"Name": volume_name(workspace_id)}).raise_for_status()
    try:
        seen = (await driver.volumes.observe())[workspace_id]
        assert (seen.exists, seen.incarnation, seen.uid) == (True, "", "")
        with pytest.raises(Refused):
            await driver.volumes.create(workspace_id, new_incarnation())
        with pytest.raises(Refused):
            await driver.volumes.delete(workspace_id, VolumeRef(new_incarnation(), None))
        assert exists(lab, "volume", volume_name(workspace_id)), json.dumps(str(seen))
    finally:
        lab.call("DELETE", f"/containers/{bodies.anchor_name(workspace_id)}")
        lab.call("DELETE", f"/volumes/{volume_name(workspace_id)}")
