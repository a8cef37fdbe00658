"""A size for each home: by the file system where it has project quotas, else by the size of a file."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from codehub.drivers.process import Options
from codehub.drivers.process.quotas import has_project, used_by
from tests.drivers_process.world import Workspace, World
from tests.support import missing, needs_root, needs_sandbox, short_folder, skip

MIB = 1 << 20
WRITE = "head -c %d /dev/zero >%s 2>/dev/null; wc -c <%s"


def written(workspace: Workspace, name: str, size: int) -> int:
    """How much of it there is, after all of it was tried."""
    return int(workspace.run(WRITE % (size, name, name)))


@contextmanager
def mounted(*options: str) -> Iterator[Path]:
    """An ext4 of 128 MiB in a file."""
    needs_root("who may mount a file system")
    folder = short_folder()
    image, place = folder / "image", folder / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(128 * MIB)
    make = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if make is None:
        missing("mkfs.ext4", "apt install e2fsprogs")
    subprocess.run((make, "-q", "-O", "quota,project", "-E", "quotatype=prjquota", str(image)), check=True)
    mount = ("mount", "-o", ",".join(("loop", *options)), str(image), str(place))
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        shutil.rmtree(folder)
        skip("a kernel with project quotas for ext4 (CONFIG_QFMT_V2), and loop devices", "another kernel")
    try:
        yield place
    finally:
        subprocess.run(("umount", "-l", str(place)), check=True)
        shutil.rmtree(folder)


@pytest.fixture
async def limited() -> AsyncIterator[World]:
    with mounted("prjquota") as place:
        place.chmod(0o755)
        world = World(Options(root=place / "w", home_quota=8 * MIB))
        needs_sandbox(world.driver)
        yield world
        await world.close()


def again(world: World, size: int | None) -> None:
    world.driver.close()
    world.options = replace(world.options, home_quota=size)
    world.driver = world.open()


async def test_a_home_takes_no_more_than_its_size_and_others_go_on(limited: World) -> None:
    told = limited.driver.isolation()
    assert any("Each home made since is limited to 8 MiB" in line for line in told), told
    one, other = await limited.start(), await limited.start()
    total = sum(written(one, name, 4 * MIB) for name in ("a", "b", "c"))
    assert 6 * MIB < total <= 8 * MIB
    assert written(other, "mine", 4 * MIB) == 4 * MIB
    size, files = used_by(one.home, one.home.stat().st_uid)
    assert size <= 8 * MIB
    assert 0 < files < 100
    one.run("rm a")
    assert written(one, "d", 2 * MIB) == 2 * MIB


async def test_a_workspace_cannot_leave_its_project(limited: World) -> None:
    workspace = await limited.start()
    attempt = (
        "import fcntl, os, struct; f = os.open(chr(46), 0); a = bytearray(fcntl.ioctl(f, 0x801C581F, bytes(28)));"
        " struct.pack_into(chr(73), a, 12, 0); fcntl.ioctl(f, 0x401C5820, bytes(a))"
    )
    assert "Invalid argument" in workspace.run(f"python3 -c '{attempt}' 2>&1")
    assert has_project(workspace.home, workspace.home.stat().st_uid)


async def test_another_setting_is_in_force_at_the_next_start(limited: World) -> None:
    workspace = await limited.start()
    await limited.driver.instances.remove(workspace.id)
    again(limited, 16 * MIB)
    assert written(await limited.start_on(workspace.id, workspace.volume), "large", 12 * MIB) == 12 * MIB


async def test_where_the_file_system_keeps_none_that_is_said_and_files_have_a_size(new_world: World) -> None:
    needs_sandbox(new_world.driver)
    again(new_world, 8 * MIB)
    if new_world.driver._machine.quotas is not None:
        skip("a file system without project quotas", "-")
    told = [line for line in new_world.driver.isolation() if "homes are not limited to 8 MiB" in line]
    assert len(told) == 1
    assert told[0].startswith("WARNING: ")
    workspace = await new_world.start()
    assert written(workspace, "large", 12 * MIB) == 8 * MIB
    assert written(workspace, "another", 4 * MIB) == 4 * MIB


async def test_nothing_is_limited_unless_it_is_asked_for(new_world: World) -> None:
    assert any("The disk space of a home is not limited" in line for line in new_world.driver.isolation())
    workspace = await new_world.start()
    assert written(workspace, "large", 12 * MIB) == 12 * MIB
