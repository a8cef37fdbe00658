"""What is left of removed instances counts for nothing at once, and is removed a while later."""

import shutil
from uuid import uuid4

from codehub.drivers.process.layout import Layout
from codehub.drivers.process.trash import Trash
from codehub.model.workspace import WorkspaceId
from tests.drivers_process.world import World
from tests.support import eventually


def throw_away(layout: Layout) -> None:
    folder = layout.instance(WorkspaceId(uuid4()))
    folder.mkdir()
    (folder / "log").touch()
    assert layout.discard(folder) is not None


async def test_a_removed_instance_is_gone_although_its_files_go_later(new_world: World) -> None:
    workspace = await new_world.start()
    await new_world.driver.instances.remove(workspace.id)
    assert not list((new_world.root / "sockets").iterdir())
    assert not list((new_world.root / "instances").iterdir())
    assert workspace.id not in await new_world.driver.instances.observe()
    new_world.open().close()
    eventually(lambda: not any((new_world.root / "trash").iterdir()), "who opens the folder next empties it")


def test_many_are_removed_together(layout: Layout) -> None:
    trash = Trash(layout, 0.05)
    young = layout.draft(layout.instances)
    for again in range(2):
        for _ in range(150):
            throw_away(layout)
            trash.empty_later()
        eventually(lambda: list(layout.trash.iterdir()) == [young], f"it is emptied, {again} times before")


def test_nothing_is_removed_after_the_end(layout: Layout) -> None:
    trash = Trash(layout, 3600)
    throw_away(layout)
    trash.empty_later()
    assert trash._timer is not None
    trash.close()
    trash._timer.join(10)
    assert not trash._timer.is_alive()
    assert len(list(layout.trash.iterdir())) == 1


def test_a_disk_that_has_gone_ends_nothing(layout: Layout) -> None:
    trash = Trash(layout, 0.05)
    shutil.rmtree(layout.root)
    for _ in range(2):
        trash.empty_later()
        eventually(lambda: trash._timer is None, "it has tried")
