"""Storage jobs as processes: they outlive us, keep secrets to themselves and see nothing but what they need."""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process import ProcessDriver
from codehub.drivers.process.homes import Home
from codehub.drivers.process.job_code import installed
from codehub.errors import Refused
from codehub.model.names import archive_key
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import OpId, VolumeRef, WorkspaceId
from tests.drivers_process.processes import living_of, record_of, sandboxed_record_of
from tests.drivers_process.world import ALLOWED, Urls, World
from tests.support import eventually, eventually_async

SECRET = "a-credential-that-nobody-may-see"


async def _ended(world: World, workspace_id: WorkspaceId, op_id: OpId) -> JobSeen:
    async def has_ended() -> bool:
        (job,) = (await world.driver.jobs.observe())[workspace_id]
        return job.state is not JobState.RUNNING

    await eventually_async(has_ended, "the job has ended", 60)
    (job,) = (await world.driver.jobs.observe())[workspace_id]
    assert job.op_id == op_id
    return job


@pytest.fixture
async def silent(world: World) -> AsyncIterator[ProcessDriver]:
    """A driver whose store takes connections and never answers, so that jobs run until they are removed."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        store = {
            "endpoint": f"http://127.0.0.1:{server.getsockname()[1]}",
            "access_key_id": "somebody",
            "secret_access_key": SECRET,
            "region": "nowhere",
            "allow_http": True,
            "timeout_seconds": 600,
            "retry_seconds": 600,
        }
        driver = ProcessDriver.open(
            world.options, ALLOWED, world.ides, lambda key: Urls(f"s3://bucket/{key}", f"s3://bucket/{key}.meta", store)
        )
        yield driver
        driver.close()


async def test_a_home_goes_to_the_store_and_comes_back_for_another_user(world: World) -> None:
    workspace_id, volume = await world.create()
    workspace = await world.start_on(workspace_id, volume)
    workspace.run("mkdir -p project/empty; echo hello > project/file; chmod 640 project/file; ln -s file project/link")
    workspace.run("ln project/file project/hard; ln -s /nowhere project/broken; touch -d @1000000000.123 project/file")
    await world.driver.instances.remove(workspace_id)
    archiving, restoring = OpId(uuid4()), OpId(uuid4())
    await world.driver.jobs.archive(workspace_id, archiving, volume)
    job = await _ended(world, workspace_id, archiving)
    assert job.state is JobState.SUCCEEDED, job.message
    assert job.volume_uid == volume.uid
    assert job.files_done > 0
    assert job.progress_at is not None
    await world.driver.jobs.remove(workspace_id, archiving)
    await world.driver.volumes.delete(workspace_id, volume)
    # Somebody else's home takes the user id that has become free.
    others, other = await world.create()
    _, volume = await world.create(workspace_id)
    key = archive_key(workspace_id, archiving)
    await world.driver.jobs.restore(workspace_id, restoring, key, volume)
    job = await _ended(world, workspace_id, restoring)
    assert job.state is JobState.SUCCEEDED, job.message
    assert job.restore_marker == key
    await world.driver.jobs.remove(workspace_id, restoring)
    workspace = await world.start_on(workspace_id, volume)
    said = workspace.run(
        "cd project; cat link; stat -c '%a %u %g %h %Y' file hard; readlink broken; ls -A empty; ls -A ~"
    )
    assert said.splitlines() == ["hello", *["640 1000 1000 2 1000000000"] * 2, "/nowhere", "project"]
    await world.driver.instances.remove(workspace_id)
    await world.driver.volumes.delete(others, other)


async def test_a_missing_archive_fails_the_job(world: World) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await world.driver.jobs.restore(workspace_id, op_id, archive_key(workspace_id, OpId(uuid4())), volume)
    job = await _ended(world, workspace_id, op_id)
    assert job.state is JobState.FAILED
    assert job.message
    await world.driver.jobs.remove(workspace_id, op_id)
    assert workspace_id not in await world.driver.jobs.observe()


async def test_a_job_outlives_us_is_adopted_and_killed(world: World, silent: ProcessDriver) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    silent.close()
    (job,) = (await world.driver.jobs.observe())[workspace_id]
    assert (job.op_id, job.state, job.volume_uid) == (op_id, JobState.RUNNING, volume.uid)
    record = record_of(world.root / f"jobs/ws-job-{op_id}")
    assert living_of(record)
    await world.driver.jobs.archive(workspace_id, op_id, volume)
    # Bubblewrap may have written down its first process meanwhile; a job made anew has another mark.
    assert record_of(world.root / f"jobs/ws-job-{op_id}").mark == record.mark, "the job that exists is left alone"
    await world.driver.jobs.remove(workspace_id, op_id)
    assert not living_of(record)
    assert workspace_id not in await world.driver.jobs.observe()


async def test_a_killed_job_has_failed(world: World, silent: ProcessDriver) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    record = sandboxed_record_of(world.root / f"jobs/ws-job-{op_id}")
    os.kill(record.pids[1], signal.SIGKILL)
    eventually(lambda: not living_of(record), "the job is dead")
    (job,) = (await world.driver.jobs.observe())[workspace_id]
    assert job.state is JobState.FAILED
    assert job.message
    await world.driver.jobs.remove(workspace_id, op_id)


async def test_a_job_whose_keeper_died_still_has_the_home_to_itself(world: World, silent: ProcessDriver) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    record = sandboxed_record_of(world.root / f"jobs/ws-job-{op_id}")
    os.kill(record.pids[0], signal.SIGKILL)
    eventually(lambda: record.pids[0] not in living_of(record), "bubblewrap is gone")
    (job,) = (await world.driver.jobs.observe())[workspace_id]
    assert job.state is JobState.RUNNING
    with pytest.raises(Refused):
        await world.driver.volumes.delete(workspace_id, volume)
    await world.driver.jobs.remove(workspace_id, op_id)
    assert not living_of(record)


async def test_another_process_under_the_jobs_pid_is_not_the_job(world: World, silent: ProcessDriver) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    folder = world.root / f"jobs/ws-job-{op_id}"
    os.kill(sandboxed_record_of(folder).pids[1], signal.SIGKILL)
    eventually(lambda: not living_of(record_of(folder)), "the job is dead")
    (folder / "sandbox.json").write_text(json.dumps({"child-pid": os.getpid()}))
    (job,) = (await world.driver.jobs.observe())[workspace_id]
    assert job.state is JobState.FAILED
    await world.driver.jobs.remove(workspace_id, op_id)


async def test_credentials_are_in_no_file_command_line_or_environment(world: World, silent: ProcessDriver) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    living = living_of(record_of(world.root / f"jobs/ws-job-{op_id}"))
    assert living
    for pid in living:
        assert SECRET.encode() not in _read(f"/proc/{pid}/cmdline") + _read(f"/proc/{pid}/environ")
    assert not _grep(SECRET, world.root)
    await world.driver.jobs.remove(workspace_id, op_id)


async def test_a_running_job_keeps_everything_else_off_its_home(world: World, silent: ProcessDriver) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    await silent.jobs.archive(workspace_id, op_id, volume)
    with pytest.raises(Refused):
        await world.start_on(workspace_id, volume)
    with pytest.raises(Refused):
        await world.driver.volumes.delete(workspace_id, volume)
    with pytest.raises(Refused):
        await world.driver.jobs.archive(workspace_id, OpId(uuid4()), volume)
    await world.driver.instances.remove(workspace_id)
    assert living_of(record_of(world.root / f"jobs/ws-job-{op_id}")), "removing an instance spares the job"
    await world.driver.jobs.remove(workspace_id, op_id)


async def test_a_job_is_refused_on_another_home_or_beside_an_instance(world: World) -> None:
    workspace = await world.start()
    with pytest.raises(Refused):
        await world.driver.jobs.archive(workspace.id, OpId(uuid4()), workspace.volume)
    await world.driver.instances.remove(workspace.id)
    stale = VolumeRef(workspace.volume.incarnation, "0" * 16)
    with pytest.raises(Refused):
        await world.driver.jobs.archive(workspace.id, OpId(uuid4()), stale)
    with pytest.raises(Refused):
        await world.driver.jobs.archive(WorkspaceId(uuid4()), OpId(uuid4()), workspace.volume)


async def test_a_job_sees_its_home_its_archive_and_no_network(world: World) -> None:
    workspace_id, volume = await world.create()
    op_id = OpId(uuid4())
    key = archive_key(workspace_id, op_id)
    record = world.driver.jobs._write_down("archive", workspace_id, op_id, key, _home(world, workspace_id, volume))
    archives = (world.archives / key).parent
    launch = world.driver.jobs._job(record, _home(world, workspace_id, volume), world.urls(key), archives)
    targets = {bind.target for bind in launch.view.binds if bind.writable}
    assert targets <= {"/home/coder", "/run/codehub", str(archives)}
    assert not launch.view.host_network
    shutil.rmtree(record.folder)


def test_the_job_takes_no_other_code_of_ours_along() -> None:
    sources = [bind.source for bind in installed()]
    assert sources[0].name == "storage_job"
    assert not any((source / "codehub" / "config").exists() for source in sources)


def _home(world: World, workspace_id: WorkspaceId, volume: VolumeRef) -> Home:
    return world.driver.volumes._homes.named(workspace_id, volume)


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _grep(text: str, folder: Path) -> str:
    return subprocess.run(["grep", "-rl", text, str(folder)], capture_output=True, text=True, check=False).stdout
