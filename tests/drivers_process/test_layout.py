"""What a start leaves on the disk, and who waits for whom while many start."""

import shutil
from uuid import uuid4

from codehub.drivers.process.layout import Layout
from tests.drivers_process.world import World
from tests.support import short_folder


def test_changes_of_different_workspaces_rarely_wait_for_one_another() -> None:
    folder = short_folder()
    layout = Layout(folder / "w")
    layout.prepare()
    for _ in range(200):
        with layout.locked(str(uuid4())):
            pass
    assert len(list(layout.locks.iterdir())) > 150
    shutil.rmtree(folder)


async def test_a_start_writes_no_file_that_nobody_reads(new_world: World) -> None:
    """Making files is a good part of what a hundred starts cost, and more where many were removed a moment ago."""
    workspace = await new_world.start()
    record = new_world.root / f"instances/ws-{workspace.id}"
    assert {path.name for path in record.iterdir()} == {
        *("instance.json", "process.json", "sandbox.json", "log", "ready")
    }
    assert (record / "ready").samefile(record / "instance.json")
