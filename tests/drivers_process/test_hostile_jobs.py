"""A job that was taken over by what it unpacked: whatever it leaves, nothing of the machine is harmed or given away."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process import ProcessDriver
from codehub.model.names import archive_key
from codehub.model.observation import JobState
from codehub.model.workspace import OpId
from tests.drivers_process.test_jobs import _ended, silent
from tests.drivers_process.world import World
from tests.support import needs_root

__all__ = ["silent"]


def a_link(path: Path) -> None:
    secret = path.parents[3] / "secret.json"
    secret.write_text(json.dumps({"state": "failed", "message": "a secret", "bytes_done": 5}))
    path.symlink_to(secret)


def of_the_future(path: Path) -> None:
    path.write_text("{}")
    os.utime(path, ns=(0, 2**62))


REPORTS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to another file": a_link,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "endless": lambda path: path.write_bytes(b'{"bytes_done": 5, "x": "' + b"x" * 10_000_000),
    "deep": lambda path: path.write_text("[" * 50_000),
    "nonsense": lambda path: path.write_text(
        '{"bytes_done": "x", "files_done": [], "restore_marker": 1, "reason": {}}'
    ),
    "of the future": of_the_future,
}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.timeout(20)
async def test_what_a_job_reports_harms_no_listing(world: World, silent: ProcessDriver, report: str) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    out = world.root / f"jobs/ws-job-{op_id}/out"
    try:
        (out / "result").unlink(missing_ok=True)
        REPORTS[report](out / "result")
        (job,) = (await silent.jobs.observe())[workspace_id]
        assert (job.state, job.bytes_done, job.files_done) == (JobState.RUNNING, 0, 0)
        assert "secret" not in job.message
    finally:
        await silent.jobs.remove(workspace_id, op_id)
    assert not out.exists()


async def test_an_archive_is_nobodys_but_ours_once_its_job_is_removed(world: World) -> None:
    """The user id of its home will one day be another workspace's."""
    needs_root("whose workspaces have user ids of their own")
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    folder = (world.archives / archive_key(workspace_id, op_id)).parent
    folder.mkdir(parents=True)
    elsewhere = world.archives / "somebody-elses"
    elsewhere.write_text("a secret")
    (folder / "hard").hardlink_to(elsewhere)
    (folder / "soft").symlink_to(elsewhere)
    await world.driver.jobs.archive(workspace_id, op_id, volume)
    assert folder.stat().st_uid != 0  # the job writes there as the home's user
    assert (await _ended(world, workspace_id, op_id)).state is JobState.SUCCEEDED
    assert elsewhere.stat().st_uid == 0
    await world.driver.jobs.remove(workspace_id, op_id)
    found = [folder, *folder.iterdir()]
    assert len(found) == 5
    assert {path.lstat().st_uid for path in found} == {0}
    assert {stat.S_IMODE(path.lstat().st_mode) for path in found if path.name.startswith("home")} == {0o600}


async def test_a_user_id_that_was_given_back_is_not_the_next_one_given(world: World) -> None:
    needs_root("whose workspaces have user ids of their own")
    users = []
    for _ in range(2):
        workspace_id, volume = await world.create()
        users.append(next((world.root / f"homes/ws-{workspace_id}-home").iterdir()).stat().st_uid)
        await world.driver.volumes.delete(workspace_id, volume)
    assert users[0] != users[1]
