"""What every driver promises about volumes: drivers.base.Volumes."""

import asyncio

import pytest

from codehub.errors import Refused
from codehub.model.workspace import Incarnation, VolumeRef
from tests.contract.backends import HOME, Case, new_incarnation, new_op
from tests.contract.harness import Skill
from tests.support import eventually_async


async def test_there_is_no_volume_until_one_is_made(case: Case) -> None:
    seen = await case.seen_volume()
    assert not seen.exists
    assert seen.confirmed
    assert case.id not in await case.backend.volumes.observe()


async def test_a_new_volume_is_empty_and_labelled(case: Case) -> None:
    incarnation = new_incarnation()
    await case.backend.volumes.create(case.id, incarnation)
    seen = await case.seen_volume()
    assert seen.exists
    assert seen.incarnation == incarnation
    assert seen.uid
    assert (await case.backend.volumes.observe())[case.id].ref == seen.ref
    assert await case.harness.read_home(case.id) == {}


async def test_creating_again_is_nothing_to_do_and_loses_nothing(case: Case) -> None:
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    await case.backend.volumes.create(case.id, volume.incarnation)
    assert (await case.seen_volume()).ref == volume
    assert await case.harness.read_home(case.id) == HOME


async def test_another_incarnation_is_not_created_over_a_volume(case: Case) -> None:
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    with pytest.raises(Refused):
        await case.backend.volumes.create(case.id, new_incarnation())
    assert (await case.seen_volume()).ref == volume
    assert await case.harness.read_home(case.id) == HOME


async def test_many_creations_at_once_make_one_volume(case: Case) -> None:
    incarnation = new_incarnation()
    await asyncio.gather(*(case.backend.volumes.create(case.id, incarnation) for _ in range(8)))
    first = await case.seen_volume()
    await case.harness.write_home(case.id, HOME)
    await case.backend.volumes.create(case.id, incarnation)
    assert (await case.seen_volume()).ref == first.ref
    assert await case.harness.read_home(case.id) == HOME


async def test_a_volume_is_marked_as_whole_beside_what_is_in_it(case: Case) -> None:
    """On every file system: nothing of the mark is in the home, and listings show it."""
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    assert not (await case.seen_volume()).whole
    for _ in range(2):
        await case.backend.volumes.mark_whole(case.id, volume)
        assert (await case.seen_volume()).whole
        assert (await case.harness.another().volumes.observe())[case.id].whole
    assert await case.harness.read_home(case.id) == HOME


async def test_a_mark_goes_with_its_volume_and_is_never_the_next_ones(case: Case) -> None:
    volume = await case.volume()
    await case.backend.volumes.mark_whole(case.id, volume)
    await case.backend.volumes.delete(case.id, volume)
    with pytest.raises(Refused):
        await case.backend.volumes.mark_whole(case.id, volume)
    await case.backend.volumes.create(case.id, volume.incarnation)
    seen = await case.seen_volume()
    assert not seen.whole
    with pytest.raises(Refused):
        await case.backend.volumes.mark_whole(case.id, volume)
    assert not (await case.backend.volumes.observe())[case.id].whole
    await case.backend.volumes.mark_whole(case.id, seen.ref)
    assert (await case.seen_volume()).whole
    await case.backend.volumes.delete(case.id, seen.ref)
    assert not (await case.seen_volume()).exists


async def test_each_making_has_a_uid_of_its_own(case: Case) -> None:
    incarnation = new_incarnation()
    uids = set()
    for _ in range(3):
        await case.backend.volumes.create(case.id, incarnation)
        seen = await case.seen_volume()
        uids.add(seen.uid)
        await case.harness.write_home(case.id, {"left": b"over"})
        await case.backend.volumes.delete(case.id, seen.ref)
    assert len(uids) == 3
    await case.backend.volumes.create(case.id, incarnation)
    assert await case.harness.read_home(case.id) == {}


async def test_deleting_may_be_repeated(case: Case) -> None:
    volume = await case.volume()
    await case.harness.write_home(case.id, HOME)
    for _ in range(2):
        await case.backend.volumes.delete(case.id, volume)
        seen = await case.seen_volume()
        assert not seen.exists
        assert seen.confirmed
        assert case.id not in await case.backend.volumes.observe()


async def test_deleting_what_never_was_is_nothing_to_do(case: Case) -> None:
    await case.backend.volumes.delete(case.id, VolumeRef(new_incarnation(), "some-uid"))


async def test_a_paused_ex_leader_cannot_delete_a_newer_volume(case: Case) -> None:
    old, new = await case.replaced_volume()
    await case.harness.write_home(case.id, HOME)
    same_incarnation = VolumeRef(new.incarnation, old.uid)
    for stale in (old, same_incarnation, VolumeRef(Incarnation(""), None), VolumeRef(old.incarnation, None)):
        with pytest.raises(Refused):
            await case.harness.another().volumes.delete(case.id, stale)
    assert (await case.seen_volume()).ref == new
    assert await case.harness.read_home(case.id) == HOME


async def test_a_reference_without_a_uid_means_any_of_its_incarnation(case: Case) -> None:
    volume = await case.volume()
    await case.backend.volumes.delete(case.id, VolumeRef(volume.incarnation, None))
    assert not (await case.seen_volume()).exists


async def test_a_volume_with_an_instance_is_not_deleted(case: Case) -> None:
    volume = await case.volume()
    await case.start(volume)
    await case.harness.write_home(case.id, {"kept": b"1"})
    with pytest.raises(Refused):
        await case.backend.volumes.delete(case.id, volume)
    assert (await case.seen_volume()).ref == volume
    assert (await case.harness.read_home(case.id))["kept"] == b"1"
    await case.backend.instances.remove(case.id)
    await case.backend.volumes.delete(case.id, volume)
    assert not (await case.seen_volume()).exists


@pytest.mark.needs(Skill.LONG_JOBS)
async def test_a_volume_with_a_running_job_is_not_deleted(case: Case) -> None:
    volume = await case.volume()
    await case.harness.make_jobs_long(case.id)
    op_id = new_op()
    await case.backend.jobs.archive(case.id, op_id, volume)
    with pytest.raises(Refused):
        await case.backend.volumes.delete(case.id, volume)
    assert (await case.seen_volume()).ref == volume
    await case.backend.jobs.remove(case.id, op_id)
    await case.backend.volumes.delete(case.id, volume)


async def test_a_volume_that_was_lost_is_seen_to_be_gone(case: Case) -> None:
    await case.volume()
    await case.harness.lose_volume(case.id)

    async def is_gone() -> bool:
        return not (await case.seen_volume()).exists and case.id not in await case.backend.volumes.observe()

    await eventually_async(is_gone, "the volume is gone")
    assert (await case.seen_volume()).confirmed


async def test_one_listing_shows_every_volume(case: Case, other: Case) -> None:
    one, two = await case.volume(), await other.volume()
    seen = await case.harness.another().volumes.observe()
    assert seen[case.id].ref == one
    assert seen[other.id].ref == two


@pytest.mark.needs(Skill.CLUTTER)
async def test_foreign_things_do_not_disturb_a_listing(case: Case) -> None:
    volume = await case.volume()
    await case.harness.clutter()
    assert (await case.backend.volumes.observe())[case.id].ref == volume
    assert case.id not in await case.backend.instances.observe()
    assert case.id not in await case.backend.jobs.observe()
