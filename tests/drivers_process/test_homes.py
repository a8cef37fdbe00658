"""Homes appear and go at once, and nothing but the one that was named is ever touched."""

import os
import stat
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process.layout import Layout, file_lock, parse_id
from codehub.errors import Refused, StartError, Unreachable
from codehub.model.workspace import Incarnation, VolumeRef, WorkspaceId
from tests.drivers_process.world import World
from tests.support import eventually


async def test_a_home_carries_its_labels_and_belongs_to_its_user(world: World) -> None:
    workspace_id, volume = await world.create()
    (home,) = (world.root / f"homes/ws-{workspace_id}-home").iterdir()
    assert home.name == f"{volume.incarnation}.{volume.uid}"
    assert home.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert home.stat().st_uid in world.options.users
    assert list(home.iterdir()) == []


async def test_making_it_twice_keeps_the_first(world: World) -> None:
    workspace_id, volume = await world.create()
    await world.driver.volumes.create(workspace_id, volume.incarnation)
    assert (await world.driver.volumes.look(workspace_id)).ref == volume
    with pytest.raises(Refused):
        await world.driver.volumes.create(workspace_id, Incarnation(str(uuid4())))
    assert (await world.driver.volumes.look(workspace_id)).ref == volume


async def test_a_paused_ex_leader_deletes_nothing_newer(world: World) -> None:
    workspace_id, old = await world.create()
    await world.driver.volumes.delete(workspace_id, old)
    _, new = await world.create(workspace_id)
    for stale in (old, VolumeRef(new.incarnation, "0" * 16), VolumeRef(old.incarnation, None)):
        with pytest.raises(Refused):
            await world.driver.volumes.delete(workspace_id, stale)
    assert (await world.driver.volumes.look(workspace_id)).ref == new
    await world.driver.volumes.delete(workspace_id, VolumeRef(new.incarnation, None))
    assert not (await world.driver.volumes.look(workspace_id)).exists


async def test_two_makings_at_once_are_one_home(world: World) -> None:
    workspace_id = WorkspaceId(uuid4())
    homes = world.driver.volumes._homes
    refused: list[Refused] = []

    def make(incarnation: Incarnation) -> None:
        try:
            homes.create(workspace_id, incarnation)
        except Refused as error:
            refused.append(error)

    threads = [threading.Thread(target=make, args=(Incarnation(str(uuid4())),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert len(list((world.root / f"homes/ws-{workspace_id}-home").iterdir())) == 1


async def test_a_home_in_use_is_not_deleted(world: World) -> None:
    workspace = await world.start()
    with pytest.raises(Refused):
        await world.driver.volumes.delete(workspace.id, workspace.volume)
    assert workspace.home.is_dir()
    await world.driver.instances.remove(workspace.id)
    await world.driver.volumes.delete(workspace.id, workspace.volume)


async def test_what_was_half_deleted_counts_for_nothing_and_goes_at_the_next_start(new_world: World) -> None:
    workspace_id, volume = await new_world.create()
    (home,) = (new_world.root / f"homes/ws-{workspace_id}-home").iterdir()
    deep = home
    for _ in range(150):
        deep = deep / "folder-with-a-long-name"
        deep.mkdir()
    deep.chmod(0)
    home.rename(new_world.root / "trash/half")  # as a deletion that died after its first step
    young = new_world.root / "trash/new-being-made"
    young.mkdir()
    assert not (await new_world.driver.volumes.look(workspace_id)).exists
    assert workspace_id not in await new_world.driver.volumes.observe()
    assert not home.parent.exists()
    new_world.open().close()
    eventually(lambda: not (new_world.root / "trash/half").exists(), "the trash is emptied")
    assert young.exists()
    await new_world.driver.volumes.create(workspace_id, volume.incarnation)
    assert (await new_world.driver.volumes.look(workspace_id)).uid != volume.uid


async def test_links_in_a_home_are_not_followed_when_it_is_removed(world: World, folder: Path) -> None:
    precious = folder / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    workspace_id, volume = await world.create()
    (home,) = (world.root / f"homes/ws-{workspace_id}-home").iterdir()
    (home / "link").symlink_to(precious)
    await world.driver.volumes.delete(workspace_id, volume)
    eventually(lambda: not list((world.root / "trash").glob(f"{home.name}-*")), "it is removed")
    assert (precious / "file").read_text() == "kept"


async def test_a_folder_that_is_gone_is_an_outage(new_world: World) -> None:
    elsewhere = new_world.root.with_name("elsewhere")
    workspace_id, volume = await new_world.create()
    new_world.root.rename(elsewhere)
    new_world.root.mkdir()  # the mount point of a disk that is not there
    try:
        with pytest.raises(Unreachable):
            await new_world.driver.volumes.observe()
        with pytest.raises(Unreachable):
            await new_world.driver.volumes.look(workspace_id)
        with pytest.raises(Unreachable):
            await new_world.driver.volumes.delete(workspace_id, volume)
        with pytest.raises(Unreachable):
            await new_world.driver.instances.observe()
        with pytest.raises(Unreachable):
            await new_world.driver.jobs.observe()
        with pytest.raises(Unreachable):
            await new_world.driver.instances.remove(workspace_id)
    finally:
        new_world.root.rmdir()
        elsewhere.rename(new_world.root)
    assert (await new_world.driver.volumes.look(workspace_id)).ref == volume


@pytest.mark.parametrize("incarnation", ["", "../x", "a/b", "a.b", "x" * 65, "\n"])
async def test_an_incarnation_that_is_no_name_is_refused(world: World, incarnation: str) -> None:
    with pytest.raises(Refused):
        await world.driver.volumes.create(WorkspaceId(uuid4()), Incarnation(incarnation))


def test_names_of_another_form_are_not_ours() -> None:
    known = uuid4()
    assert parse_id(f"ws-{known}", "ws-") == known
    for name in (f"ws-{str(known).upper()}", f"ws-{known.hex}", f"ws-{known}-home", f"xs-{known}", "ws-"):
        assert parse_id(name, "ws-") is None


def test_a_path_too_long_for_sockets_is_said_at_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="too long"):
        Layout(tmp_path / ("x" * 90)).prepare()


def test_a_lock_that_a_frozen_process_holds_is_an_outage(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with file_lock(path), pytest.raises(Unreachable, match="too long"), file_lock(path, seconds=0.1):
        pass


async def test_a_home_that_its_owner_closed_is_opened_at_the_next_start(world: World, bare_world: World) -> None:
    for each in (world, bare_world):
        workspace = await each.start()
        workspace.run("echo kept > ~/file; chmod 000 ~")
        assert stat.S_IMODE(workspace.home.stat().st_mode) == 0
        await each.driver.instances.remove(workspace.id)
        again = await each.start_on(workspace.id, workspace.volume)
        assert again.run("cat ~/file") == "kept\n"
        await each.driver.instances.remove(workspace.id)


async def test_a_home_that_the_disk_does_not_let_be_marked_is_waited_for(world: World) -> None:
    """Before a start it is marked: a full disk must not count as that workspace's failure."""
    workspace_id, volume = await world.create()
    mark = world.root / f"homes/ws-{workspace_id}-home.{volume.incarnation}.{volume.uid}.whole"
    mark.symlink_to("not/there")
    with pytest.raises(Unreachable):
        await world.driver.volumes.mark_whole(workspace_id, volume)
