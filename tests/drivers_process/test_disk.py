"""A disk whose reserve is touched: nothing is started or restored there; what runs goes on, and can be archived."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.base import InstanceSpec
from codehub.drivers.process import Options
from codehub.drivers.process.unnamed_files import unnamed_files
from codehub.errors import Unreachable
from codehub.model.disk import Scarce
from codehub.model.observation import JobState
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, WorkspaceId
from tests.drivers_process.world import Workspace, World
from tests.support import AS_ROOT, eventually, eventually_async, missing, needs_root, short_folder

NO_ROOM = 1 << 60  # kept free: more than there is
HOLD = """
import mmap, os, pathlib, sys, time
file = os.open("big", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(file, 0, 3_000_000)
os.unlink("big")
if sys.argv[1] == "mapped":
    kept = mmap.mmap(file, 3_000_000)
    os.close(file)
    for name in os.listdir("/proc/self/fd"):  # mmap has a descriptor of its own
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass
pathlib.Path("held").write_text("held")
time.sleep(600)
"""


@pytest.fixture
async def roomy() -> AsyncIterator[World]:
    folder = short_folder()
    world = World(Options(root=folder / "w"))
    yield world
    await world.close()
    shutil.rmtree(folder)


def _without_room(world: World) -> None:
    world.driver.close()
    world.options = replace(world.options, reserve=NO_ROOM)
    world.driver = world.open()


async def test_nothing_is_started_and_what_runs_goes_on(roomy: World) -> None:
    running = await roomy.start()
    stopped, volume = await roomy.create()
    _without_room(roomy)
    spec = InstanceSpec(op_id=OpId(uuid4()), image_ref="test", volume=volume)
    with pytest.raises(Unreachable, match="almost full"):
        await roomy.driver.instances.start(stopped, spec)
    with pytest.raises(Unreachable, match="almost full"):
        await roomy.driver.volumes.create(WorkspaceId(uuid4()), Incarnation(str(uuid4())))
    with pytest.raises(Unreachable, match="almost full"):
        await roomy.driver.jobs.restore(stopped, OpId(uuid4()), ArchiveKey("x"), volume)
    assert running.request("GET", "/")[0] == 200
    # Asked for again, it is left as it is.
    again = InstanceSpec(op_id=OpId(uuid4()), image_ref="test", volume=running.volume)
    await roomy.driver.instances.start(running.id, again)


async def test_a_home_can_still_be_archived(roomy: World) -> None:
    stopped, volume = await roomy.create()
    _without_room(roomy)
    op_id = OpId(uuid4())
    await roomy.driver.jobs.archive(stopped, op_id, volume)

    async def done() -> bool:
        (job,) = (await roomy.driver.jobs.observe())[stopped]
        assert job.state is not JobState.FAILED, job.message
        return job.state is JobState.SUCCEEDED

    await eventually_async(done, "the archive")


async def taken(workspace: Workspace, scarce: Scarce = Scarce.BYTES) -> int | None:
    return (await workspace.world.driver.disk.home_sizes([workspace.id], scarce))[workspace.id]


async def test_homes_are_measured(roomy: World) -> None:
    workspace = await roomy.start()
    size, files = await taken(workspace), await taken(workspace, Scarce.FILES)
    assert size is not None
    assert files is not None
    workspace.run("head -c 3000000 /dev/urandom >grown; mkdir many; cd many; touch $(seq 200)")
    assert size + 3_000_000 <= (await taken(workspace) or 0) < size + 4_000_000
    assert await taken(workspace, Scarce.FILES) == files + 202
    assert await roomy.driver.disk.home_sizes([WorkspaceId(uuid4())], Scarce.BYTES) == {}
    gently = await roomy.driver.disk.home_sizes([workspace.id], Scarce.BYTES, gently=True)
    assert gently == {workspace.id: await taken(workspace)}
    await roomy.driver.instances.remove(workspace.id)
    assert size + 3_000_000 <= (await taken(workspace) or 0), "at rest, too"


@pytest.mark.parametrize("kind", ["open", "mapped"])
async def test_what_has_no_name_any_more_counts_too(roomy: World, kind: str) -> None:
    if kind == "mapped":
        needs_root("who may look behind a mapping")
    workspace = await roomy.start()
    before = await taken(workspace)
    workspace.request("PUT", "/files/hold.py", HOLD.encode())
    workspace.run(f"setsid python3 hold.py {kind} </dev/null >/dev/null 2>&1 &")
    eventually(lambda: workspace.run("cat held") == "held", "it is held")
    assert before is not None
    assert before + 3_000_000 <= (await taken(workspace) or 0) < before + 4_000_000
    await roomy.driver.instances.remove(workspace.id)


async def test_a_home_that_takes_too_long_is_told_and_not_left_out(roomy: World) -> None:
    workspace = await roomy.start()
    assert await taken(workspace) is not None
    roomy.driver.disk.home_seconds = 0
    assert await taken(workspace) is None


def test_whoever_holds_more_files_than_are_looked_at_counts_as_not_measured() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 10_000)
        file.flush()
        device = os.fstat(file.fileno()).st_dev
        whole = unnamed_files([os.getpid()], device)
        assert whole.is_whole
        assert whole.files >= 1
        assert whole.bytes >= 10_000
        assert not unnamed_files([os.getpid()], device, most=3).is_whole


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own, as large as a few homes."""
    needs_root("who may mount a file system")
    folder = short_folder()
    mounted = ("mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "none", str(folder))
    if subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        missing("a machine that lets root mount", AS_ROOT)
    yield folder
    subprocess.run(("umount", "-l", str(folder)), check=True)
    shutil.rmtree(folder)


async def test_five_percent_of_a_real_disk_are_kept_free(small_disk: Path) -> None:
    world = World(Options(root=small_disk / "w"))
    try:
        filler = small_disk / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 62 << 20)
        with pytest.raises(Unreachable, match="almost full: 1 MiB are free, 3 MiB are kept free"):
            await world.create()
        filler.unlink()
        workspace = await world.start()
        assert workspace.request("GET", "/")[0] == 200
    finally:
        await world.close()
