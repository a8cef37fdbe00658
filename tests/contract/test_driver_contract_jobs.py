"""What every driver promises about storage jobs: drivers.base.Jobs, with every store."""

import os

import pytest

from codehub.errors import Refused
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen, JobState
from codehub.model.workspace import ErrorReason, VolumeRef
from tests.contract.backends import HOME, Case, new_incarnation, new_op
from tests.contract.harness import Skill
from tests.contract.stores import listed, new_key


async def test_an_archive_job_leaves_a_verified_archive(storing_case: Case) -> None:
    case = storing_case
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    op_id = new_op()
    await case.backend.jobs.archive(case.id, op_id, volume)
    result = await case.ended(op_id)
    assert result.state is JobState.SUCCEEDED, result.message
    assert result.volume_uid == volume.uid
    assert result.restore_marker is None
    assert await case.harness.archives.verify(archive_key(case.id, op_id)) is ArchiveSeen.VERIFIED
    assert await case.harness.read_home(case.id) == HOME


async def test_a_restored_home_is_exactly_what_was_archived(storing_case: Case) -> None:
    case = storing_case
    volume = await case.volume()
    await case.harness.write_home(case.id, {**HOME, "random": os.urandom(3_000_000)})
    before = await case.harness.read_home(case.id)
    key = await case.archived(volume)
    await case.backend.volumes.delete(case.id, volume)
    again = await case.volume()
    await case.harness.write_home(case.id, {"left": b"over", "src/main.py": b"old"})
    op_id = new_op()
    await case.backend.jobs.restore(case.id, op_id, key, again)
    result = await case.ended(op_id)
    assert result.state is JobState.SUCCEEDED, result.message
    assert result.restore_marker == key
    assert result.volume_uid == again.uid
    assert await case.harness.read_home(case.id) == before


async def test_an_empty_archive_restores_to_an_empty_home(storing_case: Case) -> None:
    case = storing_case
    key = archive_key(case.id, new_op())
    await case.harness.archives.make_empty(key)
    volume = await case.volume()
    await case.harness.write_home(case.id, {"left": b"over"})
    op_id = new_op()
    await case.backend.jobs.restore(case.id, op_id, key, volume)
    result = await case.ended(op_id)
    assert result.state is JobState.SUCCEEDED, result.message
    assert await case.harness.read_home(case.id) == {}


async def test_an_archive_can_become_another_workspace(storing_case: Case) -> None:
    case = storing_case
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    key = await case.archived(volume)
    copy = Case(case.harness)
    copied_key = archive_key(copy.id, new_op())
    await case.harness.archives.copy(key, copied_key)
    try:
        op_id = new_op()
        await copy.backend.jobs.restore(copy.id, op_id, copied_key, await copy.volume())
        assert (await copy.ended(op_id)).restore_marker == copied_key
        assert await copy.harness.read_home(copy.id) == HOME
    finally:
        await copy.clean_up()


async def test_a_result_stays_until_it_is_removed(case: Case) -> None:
    volume = await case.volume()
    op_id = new_op()
    await case.backend.jobs.archive(case.id, op_id, volume)
    await case.ended(op_id)
    await case.backend.jobs.archive(case.id, op_id, volume)
    seen = await case.job(op_id, case.harness.another())
    assert seen is not None
    assert seen.state is JobState.SUCCEEDED
    for _ in range(2):
        await case.backend.jobs.remove(case.id, op_id)
        assert await case.jobs() in ((), [])


async def test_removing_a_job_that_never_was_is_nothing_to_do(case: Case) -> None:
    await case.backend.jobs.remove(case.id, new_op())


async def test_a_job_run_again_under_its_op_id_has_the_same_result(storing_case: Case) -> None:
    case = storing_case
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    op_id = new_op()
    for text in (b"hello", b"changed later"):
        await case.harness.write_home(case.id, {"notes.txt": text})
        await case.backend.jobs.archive(case.id, op_id, volume)
        assert (await case.ended(op_id)).state is JobState.SUCCEEDED
        await case.backend.jobs.remove(case.id, op_id)
    restore = new_op()
    await case.backend.jobs.restore(case.id, restore, archive_key(case.id, op_id), volume)
    assert (await case.ended(restore)).state is JobState.SUCCEEDED
    assert await case.harness.read_home(case.id) == HOME


async def test_a_restore_that_was_done_is_not_done_again(case: Case) -> None:
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    key = await case.archived(volume)
    op_id = new_op()
    await case.backend.jobs.restore(case.id, op_id, key, volume)
    await case.ended(op_id)
    await case.backend.jobs.remove(case.id, op_id)
    await case.harness.write_home(case.id, {"new": b"work"})
    await case.backend.jobs.restore(case.id, op_id, key, volume)
    result = await case.ended(op_id)
    assert (result.state, result.restore_marker) == (JobState.SUCCEEDED, key)
    assert await case.harness.read_home(case.id) == {**HOME, "new": b"work"}


async def test_a_paused_ex_leader_can_neither_archive_nor_overwrite_a_newer_volume(case: Case) -> None:
    old, new = await case.replaced_volume()
    await case.harness.write_home(case.id, HOME)
    key = await case.archived(new)
    await case.harness.write_home(case.id, {"new": b"work"})
    stale = (old, VolumeRef(new.incarnation, old.uid), VolumeRef(old.incarnation, None))
    for ref in stale:
        with pytest.raises(Refused):
            await case.harness.another().jobs.archive(case.id, new_op(), ref)
        with pytest.raises(Refused):
            await case.harness.another().jobs.restore(case.id, new_op(), key, ref)
    assert await case.jobs() in ((), [])
    assert await case.harness.read_home(case.id) == {**HOME, "new": b"work"}


async def test_no_job_makes_up_a_volume(case: Case) -> None:
    for ref in (VolumeRef(new_incarnation(), "some-uid"), VolumeRef(new_incarnation(), None)):
        with pytest.raises(Refused):
            await case.backend.jobs.archive(case.id, new_op(), ref)
        with pytest.raises(Refused):
            await case.backend.jobs.restore(case.id, new_op(), new_key(), ref)
    assert not (await case.seen_volume()).exists
    assert await case.jobs() in ((), [])


@pytest.mark.needs(Skill.LONG_JOBS)
async def test_another_process_finds_and_removes_a_running_job(storing_case: Case) -> None:
    case = storing_case
    volume = await case.volume()
    await case.harness.make_jobs_long(case.id)
    op_id = new_op()
    await case.backend.jobs.archive(case.id, op_id, volume)
    successor = case.harness.another()
    seen = await case.job(op_id, successor)
    assert seen is not None
    assert (seen.state, seen.volume_uid) == (JobState.RUNNING, volume.uid)
    await successor.jobs.remove(case.id, op_id)
    assert await case.jobs() in ((), [])
    assert await case.harness.archives.look(archive_key(case.id, op_id)) is ArchiveSeen.MISSING
    await case.backend.volumes.delete(case.id, volume)


async def test_a_restore_from_nothing_fails_and_says_why(storing_case: Case) -> None:
    """It calls no archive damaged: the store may be another one just now, and have it again later."""
    case = storing_case
    volume = await case.volume()
    op_id = new_op()
    await case.backend.jobs.restore(case.id, op_id, archive_key(case.id, new_op()), volume)
    result = await case.ended(op_id)
    assert result.state is JobState.FAILED
    assert result.error is ErrorReason.ACTION_FAILED
    assert result.message
    assert result.restore_marker is None


async def test_progress_is_counted(storing_case: Case) -> None:
    case = storing_case
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    op_id = new_op()
    await case.backend.jobs.archive(case.id, op_id, volume)
    result = await case.ended(op_id)
    assert result.files_done >= len(HOME)
    assert result.bytes_done >= sum(map(len, HOME.values()))
    assert result.progress_at is not None
    assert result.progress_at.tzinfo is not None


async def test_jobs_of_two_workspaces_do_not_meet(case: Case, other: Case) -> None:
    one, two = await case.volume(), await other.volume()
    await case.harness.write_home(case.id, {"a": b"1"})
    await other.harness.write_home(other.id, {"b": b"2"})
    ops = new_op(), new_op()
    await case.backend.jobs.archive(case.id, ops[0], one)
    await other.backend.jobs.archive(other.id, ops[1], two)
    assert (await case.ended(ops[0])).state is JobState.SUCCEEDED
    assert (await other.ended(ops[1])).state is JobState.SUCCEEDED
    assert [job.op_id for job in await case.jobs()] == [ops[0]]
    found = await listed(case.harness.archives)
    assert found[archive_key(case.id, ops[0])].complete
    assert found[archive_key(other.id, ops[1])].complete
