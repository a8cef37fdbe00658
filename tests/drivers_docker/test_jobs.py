"""Storage jobs as containers, on a real engine, with the real job."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.drivers.docker import spec as bodies
from codehub.errors import Refused
from codehub.model.names import archive_key, job_name
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import ArchiveKey, ErrorReason, Incarnation, OpId, VolumeRef, WorkspaceId
from tests.drivers_docker.conftest import FolderStore, Home, JobUrls, exists, make_home, new_op
from tests.lab.docker import Lab
from tests.support import eventually_async


async def job_of(driver: DockerDriver, workspace_id: WorkspaceId, op_id: OpId) -> JobSeen | None:
    jobs = (await driver.jobs.observe()).get(workspace_id, ())
    return next((job for job in jobs if job.op_id == op_id), None)


async def ended(driver: DockerDriver, workspace_id: WorkspaceId, op_id: OpId) -> JobSeen:
    async def has_ended() -> bool:
        job = await job_of(driver, workspace_id, op_id)
        return job is not None and job.state is not JobState.RUNNING

    await eventually_async(has_ended, "the job has ended", 60)
    job = await job_of(driver, workspace_id, op_id)
    assert job is not None
    return job


def fill(lab: Lab, home: Home, command: str) -> str:
    anchor = lab.call("GET", f"/containers/{bodies.anchor_name(home.id)}/json").json()["Id"]
    return lab.run(lab.workspace_image, ["sh", "-ec", f"cd {bodies.HOME}; {command}"], VolumesFrom=[anchor])


LISTING = r"find . -printf '%P %y %m %U:%G %s\n' | LC_ALL=C sort; cat note; getfattr -d note 2>/dev/null || true"


async def test_there_and_back(lab: Lab, driver: DockerDriver, store: FolderStore, home: Home) -> None:
    """Also what its own user cannot read, and what belongs to others, comes back as it was."""
    fill(
        lab,
        home,
        "echo hello > note; mkdir -p d/empty; ln -s /nowhere l; ln note d/hard; echo s > secret; chmod 0 secret;"
        "echo r > roots; chown 1000:1000 note d; chown 0:4242 roots; chmod 2755 d; chmod 4755 note",
    )
    before = fill(lab, home, LISTING)
    op_id = new_op()
    await driver.jobs.archive(home.id, op_id, home.volume)
    done = await ended(driver, home.id, op_id)
    assert (done.state, done.volume_uid, done.files_done > 0) == (JobState.SUCCEEDED, home.volume.uid, True), done
    key = archive_key(home.id, op_id)
    assert (store.folder / key).is_file()
    assert (store.folder / f"{key}.meta").is_file()
    await driver.jobs.archive(home.id, op_id, home.volume)  # done already
    await driver.jobs.remove(home.id, op_id)

    other = await make_home(driver)
    restore = new_op()
    await driver.jobs.restore(other.id, restore, key, other.volume)
    mounts = lab.call("GET", f"/containers/{job_name(restore)}/json").json()["Mounts"]
    assert {mount["Destination"]: mount["RW"] for mount in mounts}[str((store.folder / key).parent)] is False
    restored = await ended(driver, other.id, restore)
    assert (restored.state, restored.restore_marker) == (JobState.SUCCEEDED, key), restored
    assert fill(lab, other, LISTING) == before
    await driver.jobs.remove(other.id, restore)
    assert not exists(lab, "container", job_name(restore))
    await other.remove()


async def test_what_a_job_is_allowed(lab: Lab, driver: DockerDriver, store: FolderStore, home: Home) -> None:
    op_id = new_op()
    await driver.jobs.archive(home.id, op_id, home.volume)
    made = lab.call("GET", f"/containers/{job_name(op_id)}/json").json()
    host = made["HostConfig"]
    assert sorted(host["CapAdd"]) == ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"]
    assert (host["CapDrop"], host["NetworkMode"], host["ReadonlyRootfs"]) == (["ALL"], "none", True)
    assert "no-new-privileges:true" in host["SecurityOpt"]
    shown = {(mount["Destination"], mount["RW"]) for mount in made["Mounts"]}
    assert shown == {(bodies.HOME, True), (str((store.folder / archive_key(home.id, op_id)).parent), True)}
    await ended(driver, home.id, op_id)
    await driver.jobs.remove(home.id, op_id)


async def test_credentials_are_nowhere_to_be_seen(lab: Lab, options: DockerOptions, home: Home) -> None:
    """They are in the request, on standard input: not in the container's description, not in its log."""
    secret = uuid4().hex

    def bad_urls(key: ArchiveKey) -> JobUrls:
        given = {"endpoint": "http://127.0.0.1:9", "secret_access_key": secret, "access_key_id": "x"}
        return JobUrls(f"s3://bucket/{key}", f"s3://bucket/{key}.meta", given | {"retry_seconds": 1})

    driver = DockerDriver(options, bad_urls)
    op_id = new_op()
    await driver.jobs.archive(home.id, op_id, home.volume)
    job = await ended(driver, home.id, op_id)
    assert (job.state, job.error) == (JobState.FAILED, ErrorReason.UNREACHABLE), job
    described = lab.call("GET", f"/containers/{job_name(op_id)}/json").text
    written = lab.call("GET", f"/containers/{job_name(op_id)}/logs", stdout=1, stderr=1).text
    assert secret not in described + written + job.message
    await driver.jobs.remove(home.id, op_id)
    await driver.close()


async def test_a_damaged_archive_is_a_terminal_error(driver: DockerDriver, store: FolderStore, home: Home) -> None:
    key = archive_key(home.id, new_op())
    (store.folder / key).parent.mkdir(parents=True)
    (store.folder / key).write_bytes(b"not zstd")
    (store.folder / f"{key}.meta").write_text(f"sha256:{'0' * 64}\nsize:8\n")
    op_id = new_op()
    await driver.jobs.restore(home.id, op_id, key, home.volume)
    job = await ended(driver, home.id, op_id)
    assert (job.state, job.error) == (JobState.FAILED, ErrorReason.ARCHIVE_CORRUPTED)
    assert job.message
    assert job.restore_marker is None
    await driver.jobs.remove(home.id, op_id)


async def test_a_new_process_adopts_it(
    options: DockerOptions, store: FolderStore, home: Home, driver: DockerDriver
) -> None:
    op_id = new_op()
    first = DockerDriver(options, store.job_urls)
    await first.jobs.archive(home.id, op_id, home.volume)
    await first.close()
    second = DockerDriver(options, store.job_urls)
    await second.jobs.archive(home.id, op_id, home.volume)
    assert (await ended(second, home.id, op_id)).state is JobState.SUCCEEDED
    await second.jobs.remove(home.id, op_id)
    await second.close()


def made_by_somebody_who_died(lab: Lab, options: DockerOptions, home: Home, op_id: OpId) -> str:
    """The id of a job's container that was made, and nothing more."""
    anchor = lab.call("GET", f"/containers/{bodies.anchor_name(home.id)}/json").json()["Id"]
    body = bodies.job_body(
        options,
        home.id,
        home.volume,
        op_id=op_id,
        verb="archive",
        anchor_id=anchor,
        network="none",
        mount=None,
    )
    made = lab.call("POST", "/containers/create", body, name=job_name(op_id)).raise_for_status()
    return str(made.json()["Id"])


async def test_one_whose_maker_died_before_starting_it_is_made_again(
    lab: Lab, options: DockerOptions, driver: DockerDriver, home: Home
) -> None:
    op_id = new_op()
    made_by_somebody_who_died(lab, options, home, op_id)
    seen = await job_of(driver, home.id, op_id)
    assert seen is not None
    assert seen.state is JobState.RUNNING
    await driver.jobs.archive(home.id, op_id, home.volume)
    assert (await ended(driver, home.id, op_id)).state is JobState.SUCCEEDED
    await driver.jobs.remove(home.id, op_id)


async def test_one_whose_maker_died_before_asking_ends_by_itself(
    lab: Lab, options: DockerOptions, driver: DockerDriver, home: Home
) -> None:
    """The engine closes the input of a job when whoever attached to it goes away."""
    op_id = new_op()
    made = made_by_somebody_who_died(lab, options, home, op_id)
    await driver.volumes._engine.feed(made, b"")
    job = await ended(driver, home.id, op_id)
    assert job.state is JobState.FAILED
    await driver.jobs.remove(home.id, op_id)


async def test_removal_kills(lab: Lab, driver: DockerDriver, home: Home) -> None:
    fill(lab, home, "head -c 400000000 /dev/urandom > big")
    op_id = new_op()
    await driver.jobs.archive(home.id, op_id, home.volume)
    seen = await job_of(driver, home.id, op_id)
    assert seen is not None
    assert seen.state is JobState.RUNNING
    assert seen.progress_at is not None
    with pytest.raises(Refused):
        await driver.volumes.delete(home.id, home.volume)
    await driver.jobs.remove(home.id, op_id)
    await driver.jobs.remove(home.id, op_id)
    assert await job_of(driver, home.id, op_id) is None
    assert not exists(lab, "container", job_name(op_id))


async def test_a_job_that_was_killed_has_failed(lab: Lab, driver: DockerDriver, home: Home) -> None:
    fill(lab, home, "head -c 400000000 /dev/urandom > big")
    op_id = new_op()
    await driver.jobs.archive(home.id, op_id, home.volume)
    lab.call("POST", f"/containers/{job_name(op_id)}/kill").raise_for_status()
    job = await ended(driver, home.id, op_id)
    assert (job.state, job.error) == (JobState.FAILED, ErrorReason.ACTION_FAILED)
    await driver.jobs.remove(home.id, op_id)


async def test_another_volume_is_refused(driver: DockerDriver, lab: Lab, home: Home) -> None:
    op_id = new_op()
    with pytest.raises(Refused):
        await driver.jobs.archive(home.id, op_id, VolumeRef(Incarnation("other"), None))
    assert not exists(lab, "container", job_name(op_id))


def test_the_image_pins_what_the_lock_file_pins() -> None:
    def pins(text: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        name = ""
        for line in text.splitlines():
            if "==" in line:
                name = line.split()[0]
            if "--hash=" in line:
                found.setdefault(name, set()).add(line.strip().removesuffix("\\").strip())
        return found

    root = Path(__file__).parents[2]
    locked = pins((root / "requirements/dev.txt").read_text())
    image = pins((root / "images/storage-job/requirements.txt").read_text())
    assert image
    assert all(locked[name] == hashes for name, hashes in image.items()), json.dumps(sorted(image))
