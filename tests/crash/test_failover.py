"""The leader goes in the middle of an operation, in every way it can; the one that stands by finishes that operation.

A leader that only seemed to be gone comes back: it notices that another one leads, writes nothing, destroys nothing.
"""

import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from codehub.db.locks import AdvisoryLock
from codehub.model.names import parse_archive_key
from codehub.model.workspace import Desired, Operation, Phase, Workspace
from tests.crash.cycle import Person, person
from tests.crash.herd import Coordinator, Nursery
from tests.crash.site import Site, process_site
from tests.crash.writes import writers
from tests.support import eventually_async

SIZE = 40_000_000  # takes long enough to archive to be in the middle of it
GENEROUS_SECONDS = 60.0

Tell = Callable[[str], None]

pytestmark = pytest.mark.timeout(300)


@dataclass
class Pair:
    """A leader and one that stands by."""

    site: Site
    leader: Coordinator
    standby: Coordinator
    somebody: Person
    owner: psycopg.AsyncConnection[tuple[object, ...]]

    async def leadership(self) -> tuple[int, int]:
        """The epoch, and the pid of whoever holds it."""
        row = await (await self.owner.execute("SELECT epoch, holder FROM leadership")).fetchone()
        assert row is not None
        return int(str(row[0])), int(str(row[1]).rpartition(":")[2])

    async def takes_over(self, epoch: int, since: float) -> float:
        """Seconds until somebody leads after `epoch`."""

        async def leads() -> bool:
            return (await self.leadership())[0] > epoch

        await eventually_async(leads, "the other one leads", GENEROUS_SECONDS)
        assert (await self.leadership())[1] == self.standby.pid
        return time.monotonic() - since

    async def is_frozen(self, who: Coordinator) -> None:
        async def frozen() -> bool:
            return who.is_frozen

        await eventually_async(frozen, f"{who.name} is frozen", GENEROUS_SECONDS)

    async def in_the_middle(self, operation: Operation) -> Workspace:
        return await self.somebody.until(lambda row: row.status.operation is operation, f"{operation} has begun")

    async def says(self, who: Coordinator, words: str) -> None:
        async def said() -> bool:
            return words in who.said()

        await eventually_async(said, f"{who.name} says: {words}", GENEROUS_SECONDS)


@asynccontextmanager
async def pair(
    folder: Path, database: str, redis: str, nursery: Nursery, freeze_at: str | None = None, then_at: str | None = None
) -> AsyncIterator[Pair]:
    """The leader leads, the standby stands by, and a workspace runs with a large file in its home."""
    async with (
        process_site(folder, database, redis) as site,
        person(site) as somebody,
        await psycopg.AsyncConnection.connect(database, autocommit=True) as owner,
    ):
        leader = await nursery.start(site.environment, folder / "leader.log", freeze_at=freeze_at)
        standby = leader
        try:
            await somebody.create()
            await somebody.becomes(Phase.RUNNING)
            standby = await nursery.start(site.environment, folder / "standby.log", freeze_at=then_at)
            both = Pair(site, leader, standby, somebody, owner)
            await both.says(standby, "this one stands by")
            await somebody.write("notes/first.bin", SIZE)
            yield both
        finally:
            for each in (leader, standby):
                each.signal(signal.SIGKILL)
                await each.ended


async def finished(pair: Pair, begun: Workspace) -> None:
    """The very operation that was begun is finished, and the rest of the life is as ever."""
    row = await pair.somebody.becomes(Phase.ARCHIVED)
    assert row.status.archive_key is not None
    assert parse_archive_key(row.status.archive_key).op_id == begun.status.op_id
    await restored(pair)
    await pair.somebody.delete()
    leaders = {str(who) for each in (await writers(pair.site.database_url)).values() for who in each}
    assert leaders == {pair.leader.name, pair.standby.name}


async def restored(pair: Pair) -> None:
    await pair.somebody.get(Desired.RUNNING)
    assert await pair.somebody.read("notes/first.bin") == pair.somebody.files["notes/first.bin"]


@pytest.mark.exhaustive
async def test_killed(folder: Path, database: str, server_redis: str, nursery: Nursery, tell: Tell) -> None:
    async with pair(folder, database, server_redis, nursery) as both:
        await both.somebody.get(Desired.STANDBY)
        await both.somebody.wish(Desired.ARCHIVED)
        begun = await both.in_the_middle(Operation.ARCHIVING)
        epoch, pid = await both.leadership()
        assert pid == both.leader.pid
        at = time.monotonic()
        both.leader.signal(signal.SIGKILL)
        tell(f"killed while archiving: {await both.takes_over(epoch, at):.2f} s to the new leader")
        await finished(both, begun)


@pytest.mark.exhaustive
async def test_killed_while_starting(
    folder: Path, database: str, server_redis: str, nursery: Nursery, tell: Tell
) -> None:
    async with pair(folder, database, server_redis, nursery) as both:
        await both.somebody.get(Desired.STANDBY)
        await both.somebody.wish(Desired.RUNNING)
        begun = await both.in_the_middle(Operation.STARTING)
        epoch, _ = await both.leadership()
        at = time.monotonic()
        both.leader.signal(signal.SIGKILL)
        tell(f"killed while starting: {await both.takes_over(epoch, at):.2f} s to the new leader")
        row = await both.somebody.becomes(Phase.RUNNING)
        assert row.status.home_ctx.instance_op == begun.status.op_id
        assert await both.somebody.read("notes/first.bin") == both.somebody.files["notes/first.bin"]


FREEZES = (
    "before volumes.delete",  # its archive was verified and leadership was fresh; then it slept
    "after volumes.delete",
    "before jobs.archive",
    "after jobs.archive",  # the job goes on, and is adopted
    "before jobs.remove",
    "before statuses.WRITE [STANDBY/ARCHIVING→ARCHIVED/ARCHIVING]",
    "before COMMIT of statuses.RECORD [STANDBY/ARCHIVING→ARCHIVED/ARCHIVING]",
)


@pytest.mark.parametrize(
    "where", [FREEZES[0], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in FREEZES[1:])]
)
async def test_frozen_right_before_it_acts(
    folder: Path,
    database: str,
    server_redis: str,
    nursery: Nursery,
    tell: Tell,
    where: str,
) -> None:
    """It wakes up when the home has been archived and restored since, and does what it was about to do."""
    async with pair(folder, database, server_redis, nursery, freeze_at=where) as both:
        epoch, _ = await both.leadership()
        await both.somebody.get(Desired.STANDBY)
        await both.somebody.wish(Desired.ARCHIVED)

        await both.is_frozen(both.leader)
        at = time.monotonic()
        tell(f"frozen {where}: {await both.takes_over(epoch, at):.2f} s to the new leader")
        await both.somebody.becomes(Phase.ARCHIVED)
        await restored(both)
        await both.somebody.write("second.bin", 1000)
        before = await both.somebody.endpoint()
        both.leader.signal(signal.SIGCONT)
        await both.says(both.leader, "this one stands by")
        assert await both.somebody.endpoint() == before
        assert await both.somebody.read("second.bin") == both.somebody.files["second.bin"]
        await both.somebody.delete()


@pytest.mark.exhaustive
async def test_a_write_of_an_earlier_leadership_is_refused(
    folder: Path, database: str, server_redis: str, nursery: Nursery
) -> None:
    """The row is still as it was when the write was decided on: only the epoch tells that it is too late.

    A write that was sent and not committed holds a new leader off, until the database ends the sleeper's transaction.
    """
    late, raised = "before COMMIT of statuses.RECORD [STANDBY/NONE→STANDBY/ARCHIVING]", "after leadership._BUMP"
    async with pair(folder, database, server_redis, nursery, late, raised) as both:
        await both.somebody.get(Desired.STANDBY)
        await both.somebody.wish(Desired.ARCHIVED)
        await both.is_frozen(both.leader)
        await both.is_frozen(both.standby)
        both.leader.signal(signal.SIGCONT)
        await both.says(both.leader, "leadership ended")
        row = await both.somebody.look()
        assert row is not None
        assert (row.status.phase, row.status.operation) == (Phase.STANDBY, Operation.NONE)
        both.standby.signal(signal.SIGCONT)
        await both.somebody.becomes(Phase.ARCHIVED)
        await restored(both)
        await both.somebody.delete()


@pytest.mark.exhaustive
async def test_its_connection_is_cut(
    folder: Path, database: str, server_redis: str, nursery: Nursery, tell: Tell
) -> None:
    async with pair(folder, database, server_redis, nursery) as both:
        await both.somebody.get(Desired.STANDBY)
        await both.somebody.wish(Desired.ARCHIVED)
        begun = await both.in_the_middle(Operation.ARCHIVING)
        epoch, _ = await both.leadership()
        at = time.monotonic()
        cut = await both.owner.execute(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
            " WHERE l.locktype = 'advisory' AND l.granted AND a.application_name = 'codehub_leader'"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND l.objid = %s",
            [int(AdvisoryLock.LEADER) & 0xFFFFFFFF],
        )
        assert await cut.fetchall() == [(True,)]
        tell(f"connection cut while archiving: {await both.takes_over(epoch, at):.2f} s to the new leader")
        await both.says(both.leader, "this one stands by")
        assert both.leader.lives
        await finished(both, begun)
