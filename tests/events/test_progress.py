"""Progress of storage jobs: left by the leader, read in one go, told to its owner, gone by itself."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from codehub.coordinator.progress import ProgressTeller
from codehub.db.pool import Connection
from codehub.drivers.memory import MemoryWorld
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import Desired, Operation, OpId, Phase, WorkspaceId
from codehub.signals.connect import Redis, open_redis
from codehub.signals.events import RedisEvents
from codehub.signals.progress import KEY, Progress, RedisProgress, read_progress
from tests.coordinator.installation import installation, rest
from tests.db.support import OWNER, add_workspace, read
from tests.lab.wire import wire_to_redis
from tests.support import background, eventually_async

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_progress(**changes: Any) -> Progress:
    given = {"op_id": OpId(uuid4()), "operation": Operation.ARCHIVING, "bytes": 1, "files": 2, "at": NOW, **changes}
    return Progress(**given)


def an_id() -> WorkspaceId:
    return WorkspaceId(uuid4())


def events_to(redis: Redis) -> RedisEvents:
    return RedisEvents(redis, sse_prefix="t:sse:", wake_prefix="t:wake:")


async def test_what_was_left_is_read(redis: Redis) -> None:
    left = {an_id(): a_progress(bytes=number) for number in range(3)}
    await RedisProgress(redis).leave(left)
    assert await read_progress(redis, [*left, an_id()]) == left
    assert await read_progress(redis, []) == {}


async def test_it_expires(redis: Redis) -> None:
    identity = an_id()
    await RedisProgress(redis, expires_seconds=0.05).leave({identity: a_progress()})

    async def gone() -> bool:
        return not await read_progress(redis, [identity])

    await eventually_async(gone, "it has expired")
    await RedisProgress(redis).leave({identity: a_progress()})
    assert 600 < await redis.ttl(f"{KEY}{identity}") <= 900


async def test_without_redis_there_is_none(server_redis: str, redis: Redis) -> None:
    identity = an_id()
    await RedisProgress(redis).leave({identity: a_progress()})
    async with wire_to_redis(server_redis) as (wire, url), open_redis(url) as through_the_wire:
        assert await read_progress(through_the_wire, [identity])
        await wire.cut()
        assert await read_progress(through_the_wire, [identity]) == {}


async def test_what_is_no_progress_is_left_out(redis: Redis) -> None:
    good, *bad = (an_id() for _ in range(5))
    await RedisProgress(redis).leave({good: a_progress()})
    for identity, stored in zip(bad, ["", "{}", "[1]", '{"op_id": 1}'], strict=True):
        await redis.set(f"{KEY}{identity}", stored)
    assert set(await read_progress(redis, [*bad, good])) == {good}


async def test_a_workspace_is_told_of_once_a_while_with_the_newest(redis: Redis, owner: Connection) -> None:
    row = await read(owner, await add_workspace(owner))
    job = OpId(uuid4())
    teller = ProgressTeller(RedisProgress(redis), events_to(redis), every_seconds=3600)
    async with redis.pubsub() as channels:
        await channels.psubscribe("t:*")
        await channels.get_message(timeout=5)
        for done in range(1, 101):
            teller.note(row, JobSeen(job, JobState.RUNNING, bytes_done=done, files_done=1), NOW)
        async with background(teller.run()):
            message = await channels.get_message(timeout=10)
            assert message is not None
            assert message["channel"] == f"t:sse:{OWNER}".encode()
            assert json.loads(message["data"]) == {"id": str(row.id), "event": "workspace_updated"}
            assert (await read_progress(redis, [row.id]))[row.id].bytes == 100
            teller.note(row, JobSeen(job, JobState.RUNNING, bytes_done=101, files_done=1), NOW)
            assert await channels.get_message(timeout=0.2) is None, "not before its time"


async def test_redis_away_holds_nothing_up(server_redis: str, redis: Redis, owner: Connection) -> None:
    row = await read(owner, await add_workspace(owner))
    async with wire_to_redis(server_redis) as (wire, url), open_redis(url) as through_the_wire:
        await wire.cut()
        teller = ProgressTeller(RedisProgress(through_the_wire), events_to(through_the_wire), every_seconds=0.01)
        async with background(teller.run()) as task:
            for done in range(10):
                teller.note(row, JobSeen(OpId(uuid4()), JobState.RUNNING, bytes_done=done), NOW)
                await asyncio.sleep(0)
            await wire.mend()

            async def told() -> bool:
                teller.note(row, JobSeen(OpId(uuid4()), JobState.RUNNING, bytes_done=77), NOW)
                found = await read_progress(redis, [row.id])
                return row.id in found and found[row.id].bytes == 77

            await eventually_async(told, "it is told again")
            assert not task.done()


async def test_the_controller_tells_how_far_a_job_has_got(database: str) -> None:
    async with installation(database) as place:
        place.world = MemoryWorld(auto_jobs=False)
        notes: list[tuple[WorkspaceId, Operation, int]] = []

        def note(workspace: Any, job: JobSeen, _now: datetime) -> None:
            notes.append((workspace.id, workspace.status.operation, job.bytes_done))

        async with place.controller(on_progress=note) as controller:
            identity = await place.add(desired_state="STANDBY")
            await place.ticked_until(controller, identity, lambda row: row.status.phase is Phase.STANDBY)
            await place.wish(identity, Desired.ARCHIVED)
            for _ in range(10):
                await controller.tick()
                await rest(controller)
            (job,) = place.world.jobs.values()
            seen = len(notes)
            for _ in range(3):
                await controller.tick()
                await rest(controller)
            assert len(notes) == seen, "no progress, nothing to tell"
            job.bytes_done = 4711
            await controller.tick()
            assert notes[-1] == (identity, Operation.ARCHIVING, 4711)
            assert len(notes) == seen + 1
