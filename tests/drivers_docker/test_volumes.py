"""Homes and their anchors, on a real engine: what may destroy a home, and what may make one up."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.drivers.docker import spec as bodies
from codehub.errors import ActionFailed, Refused
from codehub.model.names import instance_name, volume_name
from codehub.model.workspace import Incarnation, VolumeRef, WorkspaceId
from tests.drivers_docker.conftest import FolderStore, Home, exists, make_home, new_workspace
from tests.lab.docker import Lab


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


class Paused(Exception):
    """Raised in place of the call at which the ex-leader stopped."""


def pausing(driver: DockerDriver, method: str, path_start: str) -> dict[str, Any]:
    """Stop this driver's next such call before it reaches the engine; `late` then makes it."""
    engine = driver.volumes._engine
    original = getattr(engine, method)
    held: dict[str, Any] = {}

    async def stop(path: str, *arguments: Any, **params: Any) -> Any:
        if path.startswith(path_start) and "late" not in held:
            held["late"] = lambda: original(path, *arguments, **params)
            raise Paused
        return await original(path, *arguments, **params)

    setattr(engine, method, stop)
    return held


@pytest.mark.parametrize("stopped_at", ["/containers/", "/volumes/"])
async def test_a_paused_ex_leader_cannot_remove_the_next_home(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver, stopped_at: str
) -> None:
    """It stops before its last calls; meanwhile the new leader removes the home and makes another; then it goes on."""
    home = await make_home(driver)
    old = DockerDriver(options, store.job_urls)
    held = pausing(old, "delete", stopped_at)
    with pytest.raises(Paused):
        await old.volumes.delete(home.id, home.volume)
    await driver.volumes.delete(home.id, home.volume)
    incarnation = new_incarnation()
    await driver.volumes.create(home.id, incarnation)
    new = (await driver.volumes.look(home.id)).ref
    with pytest.raises(Exception, match=r"No such container|in use"):
        await held["late"]()
    with pytest.raises(Refused):
        await old.volumes.delete(home.id, home.volume)
    assert (await driver.volumes.look(home.id)).ref == new
    await driver.volumes.delete(home.id, new)
    await old.close()


async def test_a_paused_ex_leader_cannot_start_on_the_next_home(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver
) -> None:
    """It holds the old anchor's id; the home was replaced before its create call reached the engine."""
    home = await make_home(driver)
    old = DockerDriver(options, store.job_urls)
    await old.prepare()
    held = pausing(old, "post", "/containers/create")
    with pytest.raises(Paused):
        await old.instances.start(home.id, home.spec())
    await driver.volumes.delete(home.id, home.volume)
    await driver.volumes.create(home.id, new_incarnation())
    with pytest.raises(Exception, match="No such container"):
        await held["late"]()
    assert not exists(lab, "container", instance_name(home.id))
    await driver.volumes.delete(home.id, (await driver.volumes.look(home.id)).ref)
    await old.close()


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
    other = DockerDriver(options, store.job_urls)
    await other.prepare()
    original = other.volumes.hold

    async def hold(workspace_id: WorkspaceId, volume: VolumeRef) -> str:
        held = await original(workspace_id, volume)
        lose_volume(lab, home)
        return held

    other.volumes.hold = hold  # type: ignore[method-assign]
    with pytest.raises(Refused):
        await other.instances.start(home.id, home.spec())
    assert not exists(lab, "volume", volume_name(home.id))
    assert not exists(lab, "container", instance_name(home.id))
    await other.close()


async def test_a_volume_lost_just_before_its_anchor_is_made_again_is_not_made_up(
    lab: Lab, options: DockerOptions, store: FolderStore, driver: DockerDriver
) -> None:
    """The race once more, with an anchor that had been pruned: the engine makes a volume for the new anchor."""
    home = await make_home(driver)
    lose_anchor(lab, home)
    other = DockerDriver(options, store.job_urls)
    original = other.volumes._make_anchor

    async def make_anchor(*arguments: Any, **more: Any) -> str | None:
        lab.call("DELETE", f"/volumes/{volume_name(home.id)}").raise_for_status()
        return await original(*arguments, **more)

    other.volumes._make_anchor = make_anchor  # type: ignore[method-assign]
    with pytest.raises(Refused):
        await other.instances.start(home.id, home.spec())
    assert not exists(lab, "volume", volume_name(home.id))
    assert not exists(lab, "container", bodies.anchor_name(home.id))
    await other.close()


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
