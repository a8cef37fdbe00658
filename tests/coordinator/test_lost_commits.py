"""A database that went back behind a commit which it had confirmed is noticed, and nothing else is taken for one."""

import asyncio
from dataclasses import dataclass

import pytest

from codehub.config import Settings
from codehub.coordinator.lost_commits import CommitWatch
from codehub.coordinator.records import DatabaseRecords
from codehub.coordinator.run import Coordinator, Infrastructure, open_coordinator
from codehub.db.diagnosis import Diagnosis, diagnose
from codehub.db.pool import connection
from codehub.dependencies import Degraded
from codehub.drivers.base import Resources
from codehub.errors import StaleLeader, Unavailable
from codehub.model.workspace import InstanceBackend
from codehub.signals.commit_notes import KEY, RedisCommitNotes
from codehub.signals.connect import Redis
from tests.coordinator.installation import Installation
from tests.support import eventually_async, free_port


@dataclass
class Process:
    """A coordinator's, from term to term."""

    site: Installation
    records: DatabaseRecords
    notes: RedisCommitNotes
    epoch: int = 0

    async def leads(self) -> CommitWatch:
        self.epoch = (await self.site.leadership()).epoch
        watch = CommitWatch(self.records, self.notes, self.epoch)
        await watch.begin()
        return watch

    async def commits(self, times: int = 1) -> None:
        for _ in range(times):
            await self.records.commit(self.epoch, [], [])


class Failing:
    """Redis, while it is out."""

    def __init__(self, notes: RedisCommitNotes) -> None:
        self._notes = notes
        self.is_out = True

    async def leave(self, database: str, commits: int) -> None:
        if self.is_out:
            raise Unavailable("Redis does not answer.")
        await self._notes.leave(database, commits)

    async def read(self, database: str) -> int | None:
        if self.is_out:
            raise Unavailable("Redis does not answer.")
        return await self._notes.read(database)


@pytest.fixture
def process(site: Installation, redis: Redis) -> Process:
    return Process(site, site.records, RedisCommitNotes(redis))


@pytest.fixture
def another(site: Installation, redis: Redis) -> Process:
    """One that knows nothing but what was noted."""
    return Process(site, site.records, RedisCommitNotes(redis))


async def lose(site: Installation, commits: int) -> None:
    """What a promoted replica has that never heard of the last of them."""
    await site.owner.execute("UPDATE leadership SET commits = commits - %s", [commits])


async def told(site: Installation) -> Diagnosis:
    async with connection(site.api) as conn:
        return await diagnose(conn, stuck_after_seconds=60)


async def test_another_leader_notices_by_the_note(site: Installation, process: Process, another: Process) -> None:
    watch = await process.leads()
    await process.commits(5)
    await watch.run_once()
    await lose(site, 3)
    watch = await another.leads()
    assert watch.lost is not None
    assert watch.lost.count == 3
    assert "codehub restore FILE --force" in (watch.trouble or "")
    assert (await told(site)).lost_commits == 3
    await another.commits(10)
    await watch.run_once()
    watch = await process.leads()
    assert watch.lost is not None, "it stays, though the count has overtaken the note"
    assert watch.lost.count == 3


async def test_a_note_is_made_only_of_what_is_new(process: Process, redis: Redis) -> None:
    watch = await process.leads()
    await watch.run_once()
    assert await redis.keys(f"{KEY}*") == []
    await process.commits(2)
    await watch.run_once()
    (key,) = await redis.keys(f"{KEY}*")
    assert await redis.get(key) == b"2"
    await redis.set(key, 1)
    await watch.run_once()
    assert await redis.get(key) == b"1", "nothing was committed since"


async def test_the_same_leader_is_refused_and_notices_by_its_memory(
    site: Installation, process: Process, redis: Redis
) -> None:
    await process.leads()
    await process.commits(5)
    await lose(site, 1)
    with pytest.raises(StaleLeader):
        await process.commits()
    assert await redis.keys(f"{KEY}*") == [], "nothing of it was noted"
    watch = await process.leads()
    assert watch.lost is not None
    assert watch.lost.count == 1
    await process.commits()


async def test_a_write_of_unknown_outcome_is_no_loss(site: Installation, process: Process) -> None:
    """Its commit arrived, the answer did not: the database is ahead of what the process knows."""
    await process.leads()
    await process.commits(2)
    await lose(site, -1)
    await process.commits()
    assert (await process.leads()).lost is None


async def test_while_redis_is_out_nothing_waits_and_the_loss_is_noticed_later(
    site: Installation, process: Process, another: Process, redis: Redis
) -> None:
    watch = await process.leads()
    await process.commits(5)
    await watch.run_once()
    await lose(site, 2)
    out = Failing(RedisCommitNotes(redis))
    epoch = (await site.leadership()).epoch
    watch = CommitWatch(another.records, out, epoch)
    await watch.begin()
    assert watch.trouble is None
    another.epoch = epoch
    await another.commits(10)
    with pytest.raises(Unavailable):
        await watch.run_once()
    out.is_out = False
    await watch.run_once()
    assert watch.lost is not None, "it is compared with what there was at the beginning"
    assert watch.lost.count == 2
    (key,) = await redis.keys(f"{KEY}*")
    assert await redis.get(key) == b"13"


@pytest.mark.parametrize("noted", [b"1", b"", b"soon", b"-5", "²".encode(), b"9" * 40, None])
async def test_what_is_behind_or_no_number_is_no_alarm(process: Process, redis: Redis, noted: bytes | None) -> None:
    """Redis was restored from an old snapshot, is empty, or somebody else's."""
    watch = await process.leads()
    await process.commits(5)
    await watch.run_once()
    (key,) = await redis.keys(f"{KEY}*")
    await (redis.delete(key) if noted is None else redis.set(key, noted))
    assert (await process.leads()).lost is None


async def test_another_databases_note_is_no_alarm(process: Process, redis: Redis) -> None:
    """Both share a Redis, and even a server."""
    watch = await process.leads()
    await process.commits()
    await watch.run_once()
    database = (await process.records.commit_count()).database
    assert database is not None
    assert await redis.get(f"{KEY}{database}") == b"1"
    cluster, _, oid = database.partition("/")
    await redis.set(f"{KEY}{cluster}/{int(oid) + 1}", 1000)
    await redis.set(f"{KEY}{int(cluster) + 1}/{oid}", 1000)
    assert (await process.leads()).lost is None


async def test_two_that_take_turns_are_no_alarm(process: Process, another: Process) -> None:
    for _ in range(3):
        for one in (process, another):
            watch = await one.leads()
            assert watch.lost is None
            await one.commits(3)
            await watch.run_once()
    late = await process.leads()
    await process.commits(2)
    watch = await another.leads()
    await another.commits(4)
    await watch.run_once()
    await late.run_once()
    assert (await another.leads()).lost is None, "one that was replaced may note what it knows: it is behind"


async def test_a_leader_of_an_older_version_in_between_is_no_alarm(site: Installation, process: Process) -> None:
    watch = await process.leads()
    await process.commits(3)
    await watch.run_once()
    await site.owner.execute("UPDATE leadership SET epoch = epoch + 1, holder = 'older'")
    assert (await process.leads()).lost is None


async def test_whoever_was_replaced_has_no_say(site: Installation, process: Process, another: Process) -> None:
    await process.leads()
    await another.leads()
    assert await process.records.note_lost_commits(process.epoch, 3) is None
    assert (await told(site)).lost_commits_at is None


@pytest.fixture
async def noted(site: Installation, process: Process) -> Installation:
    """A database that has lost commits; the rest of what is told is of a leader that was."""
    watch = await process.leads()
    await process.commits(5)
    await watch.run_once()
    await lose(site, 2)
    return site


async def led_until_it_says(coordinator: Coordinator, wanted: str) -> None:
    async def says() -> bool:
        try:
            detail = await coordinator.check()
        except Unavailable:
            return False
        return isinstance(detail, Degraded) and wanted in detail

    running = asyncio.create_task(coordinator.run())
    try:
        await eventually_async(says, f"it says: {wanted}")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("redis_is_out", [False, True])
async def test_a_coordinator_says_so_and_works_on(
    noted: Installation, settings: Settings, database: str, server_redis: str, redis_is_out: bool
) -> None:
    infrastructure = Infrastructure(noted.world.archives, {InstanceBackend.PROCESS: noted.world.backend()}, Resources())
    url = f"redis://127.0.0.1:{free_port()}/0" if redis_is_out else server_redis
    async with open_coordinator(settings, infrastructure, database, url) as coordinator:
        await led_until_it_says(coordinator, "Redis does not answer" if redis_is_out else "has lost 2 commits")
    assert (await told(noted)).lost_commits == (None if redis_is_out else 2)
