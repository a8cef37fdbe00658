"""The folder of an archive as root: handed to the job's user and taken back; what its store cannot do is an outage."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process import ProcessDriver
from codehub.errors import ActionFailed, Unreachable
from codehub.model.names import archive_key
from codehub.model.observation import JobState
from codehub.model.workspace import OpId
from tests.drivers_process.world import ALLOWED, Urls, World
from tests.support import AS_ROOT, eventually_async, missing, needs_root, short_folder


@contextmanager
def store(options: str) -> Iterator[Path]:
    """A file system of its own."""
    needs_root("who may mount a file system")
    folder = short_folder()
    mount = ("mount", "-t", "tmpfs", "-o", options, "none", str(folder))
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        missing("a machine that lets root mount", AS_ROOT)
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)
        shutil.rmtree(folder)


def driver_of(world: World, archives: Path) -> ProcessDriver:
    def urls(key: str) -> Urls:
        url = (archives / key).as_uri()
        return Urls(url, f"{url}.meta")

    return ProcessDriver.open(world.options, ALLOWED, world.ides, urls)


@pytest.mark.parametrize("options", ["ro", "nr_inodes=1"])
async def test_a_store_that_takes_no_folder_is_an_outage(world: World, options: str) -> None:
    workspace_id, volume = await world.create()
    with store(options) as archives:
        driver = driver_of(world, archives)
        with pytest.raises(Unreachable, match="The archive's folder"):
            await driver.jobs.archive(workspace_id, OpId(uuid4()), volume)
        driver.close()
    assert workspace_id not in await world.driver.jobs.observe()
    await world.driver.volumes.delete(workspace_id, volume)


async def test_a_file_in_the_way_is_one_archives_failure(world: World, tmp_path: Path) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    folder = (tmp_path / archive_key(workspace_id, op_id)).parent
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    driver = driver_of(world, tmp_path)
    with pytest.raises(ActionFailed, match="The archive's folder"):
        await driver.jobs.archive(workspace_id, op_id, volume)
    driver.close()
    await world.driver.volumes.delete(workspace_id, volume)


async def test_an_archive_stays_the_same_object_when_its_job_is_removed(world: World) -> None:
    """Else it would be read back twice: its change counts as another object."""
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await world.driver.jobs.archive(workspace_id, op_id, volume)

    async def has_ended() -> bool:
        (job,) = (await world.driver.jobs.observe())[workspace_id]
        return job.state is JobState.SUCCEEDED

    await eventually_async(has_ended, "the home is archived", 60)
    archive = world.archives / archive_key(workspace_id, op_id)
    before = archive.stat()
    assert before.st_uid == os.geteuid()
    await world.driver.jobs.remove(workspace_id, op_id)
    after = archive.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    await world.driver.volumes.delete(workspace_id, volume, archived=op_id)
