"""The restore drill: it finds archives that cannot be restored, and leaves nothing behind."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import cast
from uuid import UUID, uuid4

import pytest

from codehub.drills.figures import percentile
from codehub.drills.restoring import Trial, check_room, choose, clear_leftovers, drill, is_scratch, scratch_id
from codehub.drivers.base import Archives
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.faults import Misbehaviour
from codehub.errors import DriverError, StartError
from codehub.model.gc import FoundArchive
from codehub.model.names import archive_key
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, WorkspaceId


def _silent(_line: str) -> None:
    pass


def _world(count: int) -> tuple[MemoryWorld, list[ArchiveKey]]:
    world = MemoryWorld()
    keys = [archive_key(WorkspaceId(uuid4()), OpId(uuid4())) for _ in range(count)]
    for key in keys:
        world.put_archive(key, {"a": b"x" * 10, "b": b"y"})
    return world, keys


async def test_what_was_chosen_is_restored_and_the_scratch_removed() -> None:
    world, keys = _world(6)
    report = await drill(world.archives, world.backend(), 4, say=_silent)
    assert report.archives == 6
    assert len({one.key for one in report.trials} & set(keys)) == 4
    assert (report.failed, [one.trouble for one in report.trials]) == (0, [""] * 4)
    assert (world.volumes, world.jobs, set(world.stored)) == ({}, {}, set(keys))


async def test_an_archive_that_is_damaged_is_found() -> None:
    world, keys = _world(2)
    world.harm_archive(keys[0])
    report = await drill(world.archives, world.backend(), 2, say=_silent)
    assert {one.key: bool(one.trouble) for one in report.trials} == {keys[0]: True, keys[1]: False}
    assert report.failed == 1
    assert (world.volumes, world.jobs) == ({}, {})


async def test_a_job_that_stands_still_is_given_up_and_removed() -> None:
    world, _ = _world(1)
    world.auto_jobs = False
    report = await drill(world.archives, world.backend(), 1, say=_silent, stalled_seconds=0.3)
    assert "no progress" in report.trials[0].trouble
    assert (world.volumes, world.jobs) == ({}, {})


async def test_an_engine_that_is_out_is_a_failure_and_a_store_that_is_out_an_error() -> None:
    world, _ = _world(1)
    world.misbehave("volumes.create", Misbehaviour.UNREACHABLE)
    assert (await drill(world.archives, world.backend(), 1, say=_silent)).failed == 1
    world.behave()
    world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
    with pytest.raises(DriverError):
        await drill(world.archives, world.backend(), 1, say=_silent)


async def test_leftovers_are_known_by_their_ids_and_nothing_else_is_touched() -> None:
    world, _ = _world(1)
    backend = world.backend()
    ours, theirs = scratch_id(), WorkspaceId(uuid4())
    for identity in (ours, theirs):
        await backend.volumes.create(identity, Incarnation("x"))
    assert (is_scratch(ours), is_scratch(theirs)) == (True, False)
    assert await clear_leftovers(backend) == 1
    assert set(world.volumes) == {theirs}


async def test_only_the_newest_complete_archive_of_each_workspace_is_chosen() -> None:
    world, keys = _world(3)
    newer = archive_key(_owner(keys[0]), OpId(uuid4()))
    world.put_archive(newer, {})
    half = archive_key(_owner(keys[1]), OpId(uuid4()))
    world.put_archive(half, {})
    world.lose_archive(half, "meta")
    found = [archive async for page in world.archives.found() for archive in page]
    count, chosen = choose(found, 10, random.Random(1))
    assert count == 3
    assert {archive.key for archive in chosen} == {newer, keys[1], keys[2]}


def test_without_room_for_the_largest_home_nothing_is_begun() -> None:
    chosen = [FoundArchive(f"{size}", datetime.now(UTC), complete=True, size=size << 20) for size in (1, 300)]
    with pytest.raises(StartError, match="may take 1200 MiB, and 1199 MiB are free"):
        check_room(chosen, 1199 << 20)
    check_room(chosen, 1200 << 20)
    check_room([], 0)


def _owner(key: str) -> WorkspaceId:
    return WorkspaceId(UUID(key.partition("/")[0]))


def test_figures_per_gb_are_of_homes_that_are_large_enough() -> None:
    assert Trial("k", 2.0, 1_000_000_000, 1).seconds_per_gb == 2.0
    assert Trial("k", 2.0, 1_000, 1).seconds_per_gb is None
    assert Trial("k", 2.0, 1_000_000_000, 1, "broken").seconds_per_gb is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.95) == 95.0
    assert percentile([], 0.5) is None


class Slow:
    """A store whose listing never ends."""

    async def found(self) -> AsyncIterator[list[FoundArchive]]:
        await asyncio.Event().wait()
        yield []


async def test_a_store_that_does_not_answer_is_a_line() -> None:
    world, _ = _world(1)
    with pytest.raises(StartError, match="was not listed within"):
        await drill(cast("Archives", Slow()), world.backend(), 1, say=_silent, list_seconds=0.1)
