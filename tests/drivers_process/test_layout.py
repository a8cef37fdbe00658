"""What a start leaves on the disk, and who waits for whom while many start."""

import fcntl
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process.layout import Layout
from codehub.errors import Unreachable
from tests.drivers_process.world import World


def test_changes_of_different_workspaces_rarely_wait_for_one_another(layout: Layout) -> None:
    for _ in range(200):
        with layout.locked(str(uuid4())):
            pass
    exclusive = [path for path in layout.locks.iterdir() if len(path.name) == 4]
    assert len(exclusive) > 150


def test_changes_of_workspaces_that_the_version_before_locks_together_are_made_at_once(layout: Layout) -> None:
    with layout.locked("ws-a-1234"), layout.locked("ws-b-1234"):
        pass


def test_nobody_changes_what_the_version_before_is_changing(layout: Layout) -> None:
    name = "ws-a-1234"
    changed = threading.Event()

    def change() -> None:
        with layout.locked(name):
            changed.set()

    with (layout.locks / f"{int.from_bytes(b'1234', 'big') % 64:02}").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        other = threading.Thread(target=change)
        other.start()
        assert not changed.wait(0.3)
    other.join(20)
    assert changed.is_set()


def test_an_upgrade_while_the_disk_of_the_homes_is_not_mounted_takes_the_place_below_for_nothing(
    tmp_path: Path,
) -> None:
    """The version before put no sign on that disk: ours must not be below it."""
    layout = Layout(tmp_path)
    layout.prepare()
    (layout.homes / "codehub-homes").unlink()
    (layout.root / "homes-signed").unlink()
    Layout(tmp_path).prepare()
    layout.homes.rename(tmp_path / "below")
    (layout.homes / f"ws-{uuid4()}-home").mkdir(parents=True)  # mounted again
    layout.check_homes()
    Layout(tmp_path).prepare()
    layout.homes.rename(tmp_path / "unmounted")
    (tmp_path / "below").rename(layout.homes)
    with pytest.raises(Unreachable):
        layout.check_homes()


async def test_a_start_writes_no_file_that_nobody_reads(new_world: World) -> None:
    """Making files is a good part of what a hundred starts cost, and more where many were removed a moment ago."""
    workspace = await new_world.start()
    record = new_world.root / f"instances/ws-{workspace.id}"
    assert {path.name for path in record.iterdir()} == {
        *("instance.json", "process.json", "sandbox.json", "log", "ready")
    }
    assert (record / "ready").samefile(record / "instance.json")
