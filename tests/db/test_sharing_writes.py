"""Writes that are shared: each is as if it were alone, and nothing is done for whom it is too late."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from codehub.db.pool import Connection, Pool, Role, Timeouts, open_pool
from codehub.db.sharing import write_shared
from codehub.errors import Conflict, ServiceError, Unavailable
from tests.lab.wire import wire_to_database
from tests.support import eventually_async

DOOR = 77  # an advisory lock of these tests
SLOW = 100  # waits for the door
REFUSED = -1
BREAKS = -2  # … whatever shares a transaction with it


@dataclass
class Noting:
    """A kind of write that puts numbers into a table."""

    batches: list[list[int]] = field(default_factory=list)
    only_alone: bool = False
    takes_seconds: float = 0.0

    async def note(self, conn: Connection, asked: Sequence[int]) -> Sequence[int | ServiceError]:
        self.batches.append(list(asked))
        if BREAKS in asked or (self.only_alone and len(asked) > 1):
            raise RuntimeError("broken")
        if any(number >= SLOW for number in asked):
            await conn.execute("SELECT pg_advisory_xact_lock(%s)", [DOOR])
        if self.takes_seconds:
            await conn.execute("SELECT pg_sleep(%s)", [self.takes_seconds])
        good = [number for number in asked if number != REFUSED]
        await conn.execute("INSERT INTO noted SELECT unnest(%s::int[])", [good])
        return [Conflict("Not this one.") if number == REFUSED else 2 * number for number in asked]


@pytest.fixture
async def noting(owner: Connection) -> Noting:
    await owner.execute("CREATE TABLE noted (n int)")
    await owner.execute("GRANT SELECT, INSERT ON noted TO codehub_api")
    return Noting()


@pytest.fixture
async def hurried(database: str) -> AsyncIterator[Pool]:
    async with open_pool(database, Role.API, timeouts=Timeouts(answer=2)) as pool:
        await pool.wait()
        yield pool


@asynccontextmanager
async def door_closed(owner: Connection) -> AsyncIterator[None]:
    await owner.execute("SELECT pg_advisory_lock(%s)", [DOOR])
    try:
        yield
    finally:
        await owner.execute("SELECT pg_advisory_unlock(%s)", [DOOR])


def ask(pool: Pool, noting: Noting, number: int) -> "asyncio.Task[int]":
    return asyncio.create_task(write_shared(pool, noting.note, number))


async def begun(noting: Noting, batches: int) -> None:
    async with asyncio.timeout(20):
        while len(noting.batches) < batches:  # noqa: ASYNC110 - the batches belong to the code under test
            await asyncio.sleep(0.001)


async def all_taken(pool: Pool, noting: Noting) -> "list[asyncio.Task[int]]":
    """Two wishes that wait at the door, each in a transaction of its own: there are no more of those at once."""
    first = []
    for number in (0, 1):
        first.append(ask(pool, noting, SLOW + number))
        await begun(noting, number + 1)
    return first


async def noted(owner: Connection) -> list[int]:
    rows = await (await owner.execute("SELECT n FROM noted ORDER BY n")).fetchall()
    return [number for (number,) in rows]


async def is_idle(owner: Connection) -> bool:
    busy = """SELECT FROM pg_stat_activity
              WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"""
    return await (await owner.execute(busy)).fetchone() is None


async def outcomes(*asked: "asyncio.Task[int]") -> list[object]:
    """What each was told: a number, or the kind of error."""
    told = await asyncio.gather(*asked, return_exceptions=True)
    return [type(each) if isinstance(each, BaseException) else each for each in told]


async def test_who_asks_at_once_shares_a_transaction_and_is_told_apart(
    pool: Pool, noting: Noting, owner: Connection
) -> None:
    assert await outcomes(*(ask(pool, noting, each) for each in (1, REFUSED, 2))) == [2, Conflict, 4]
    assert noting.batches == [[1, REFUSED, 2]]
    assert await noted(owner) == [1, 2]


async def test_what_breaks_breaks_alone_and_is_told_once_in_the_log(
    pool: Pool, noting: Noting, owner: Connection
) -> None:
    with capture_logs() as logs:
        assert await outcomes(*(ask(pool, noting, each) for each in (1, BREAKS, 2))) == [2, RuntimeError, 4]
    assert noting.batches == [[1, BREAKS, 2], [1], [BREAKS], [2]]
    assert await noted(owner) == [1, 2]
    assert len(logs) == 1
    assert "RuntimeError" in str(logs)


async def test_what_was_refused_for_lateness_is_not_done_alone_afterwards(
    hurried: Pool, noting: Noting, owner: Connection
) -> None:
    """A start that was answered with 503 must not follow upon a stop that came later."""
    noting.only_alone = True
    async with door_closed(owner):
        assert await outcomes(*(ask(hurried, noting, each) for each in (SLOW, 1, 2))) == [Unavailable] * 3
    for later in (3, 4, 5):
        assert await ask(hurried, noting, later) == 2 * later
    await eventually_async(lambda: is_idle(owner), "nothing is under way any more")
    assert await noted(owner) == [3, 4, 5]
    assert [1] not in noting.batches
    assert [2] not in noting.batches


async def test_a_wish_that_was_picked_up_late_has_no_more_time_than_its_author(
    hurried: Pool, noting: Noting, owner: Connection
) -> None:
    """Behind a transaction that takes long it begins late; whoever asked has been answered when the door opens."""
    async with door_closed(owner):
        first = await all_taken(hurried, noting)
        await asyncio.sleep(1)  # of the two seconds that they have
        late = ask(hurried, noting, SLOW + 2)
        assert await outcomes(*first, late) == [Unavailable] * 3
        assert [SLOW + 2] in noting.batches, "it was begun when the first had given up"
    assert await ask(hurried, noting, 1) == 2
    await eventually_async(lambda: is_idle(owner), "nothing is under way any more")
    assert await noted(owner) == [1]


async def test_who_has_time_left_is_not_cut_off_with_the_oldest(
    hurried: Pool, noting: Noting, owner: Connection
) -> None:
    async with door_closed(owner):
        first = await all_taken(hurried, noting)
        await asyncio.sleep(0.9)  # each has two seconds from when it asked; first ones, old and young end in that order
        old = ask(hurried, noting, SLOW + 2)
        await asyncio.sleep(0.8)
        young = ask(hurried, noting, SLOW + 3)
        assert await outcomes(*first, old) == [Unavailable] * 3
    assert await young == 2 * (SLOW + 3)
    assert [SLOW + 2, SLOW + 3] in noting.batches, "they shared a transaction until the older one's time was over"
    assert await noted(owner) == [SLOW + 3]


async def test_who_has_hardly_any_time_left_is_refused_at_once_and_takes_nobody_along(
    hurried: Pool, noting: Noting, owner: Connection
) -> None:
    """A transaction that is begun for them would be cut off with them, and so on: an overload would serve nobody."""
    async with door_closed(owner):
        first = [ask(hurried, noting, SLOW + number) for number in range(2 * 32)]  # as many as are done at once
        await asyncio.sleep(0.1)
        late = ask(hurried, noting, 1)  # a tenth of a second is left when the first give up
        await asyncio.sleep(1)
        young = ask(hurried, noting, 2)
        assert await outcomes(*first, late) == [Unavailable] * (len(first) + 1)
    assert await young == 4
    assert noting.batches[2:] == [[2]]
    assert await noted(owner) == [2]


async def test_who_has_less_time_left_than_the_last_transaction_took_takes_nobody_along(
    hurried: Pool, noting: Noting, owner: Connection
) -> None:
    """Also where that is more than half of what everybody has."""
    noting.takes_seconds = 1.2
    first = []
    for number in (0, 1):
        first.append(ask(hurried, noting, number))
        await begun(noting, number + 1)
    await asyncio.sleep(0.3)
    late = ask(hurried, noting, 2)  # it has hardly more than a second left when the first are done
    await asyncio.sleep(0.6)
    young = ask(hurried, noting, 3)
    assert await outcomes(*first, late, young) == [0, 2, Unavailable, 6]
    assert noting.batches == [[0], [1], [3]]
    assert await noted(owner) == [0, 1, 3]


@dataclass
class Idle:
    """A kind of write that needs the database for nothing, so that two of them end in one turn of the loop."""

    begun: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, _conn: Connection, asked: Sequence[int]) -> Sequence[int]:
        self.begun += 1
        await self.go_on.wait()
        return list(asked)


async def test_nobody_is_stranded_behind_transactions_that_have_just_ended(hurried: Pool) -> None:
    """Whom the first of them answers asks again at once."""
    idle = Idle()

    async def again_and_again(number: int, times: int) -> int:
        for _ in range(times - 1):
            await write_shared(hurried, idle.work, number)
        return await write_shared(hurried, idle.work, number)

    asked = []
    for number, times in ((1, 2), (2, 1)):
        asked.append(asyncio.create_task(again_and_again(number, times)))
        async with asyncio.timeout(20):
            while idle.begun < number:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)
    idle.go_on.set()
    assert await asyncio.gather(*asked) == [1, 2]


async def test_a_caller_who_leaves_takes_nobody_along_and_is_not_served(
    pool: Pool, noting: Noting, owner: Connection
) -> None:
    async with door_closed(owner):
        first = await all_taken(pool, noting)
        leaves, stays = ask(pool, noting, 1), ask(pool, noting, 2)
        await asyncio.sleep(0)
        leaves.cancel()
        first[0].cancel()  # its transaction goes on: it may be half done
        assert await outcomes(leaves, first[0]) == [asyncio.CancelledError] * 2
    assert await outcomes(first[1], stays) == [2 * (SLOW + 1), 4]
    assert await noted(owner) == [2, SLOW, SLOW + 1]


SLOW_COMMIT = (
    """CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql
       AS 'BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END'""",
    """CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON noted DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION take_time()""",
)


async def test_a_commit_that_has_begun_has_time_to_end(database: str, noting: Noting, owner: Connection) -> None:
    for statement in SLOW_COMMIT:
        await owner.execute(statement)
    async with open_pool(database, Role.API, timeouts=Timeouts(answer=1, commit=30)) as pool:
        await pool.wait()
        assert await ask(pool, noting, 1) == 2
    assert await noted(owner) == [1]


async def test_a_commit_that_is_cut_off_is_not_repeated(database: str, noting: Noting, owner: Connection) -> None:
    """Nobody knows whether it was written: whoever asked is told of no answer, and nothing is done twice."""
    late = asyncio.Event()

    async def hear(data: bytes) -> None:
        if b"COMMIT" in data and noting.batches:
            await late.wait()

    async with (
        wire_to_database(database) as (wire, url),
        open_pool(url, Role.API, timeouts=Timeouts(answer=1, commit=0.2)) as pool,
    ):
        await pool.wait()
        wire.hear = hear
        asked = [ask(pool, noting, each) for each in (1, 2)]
        assert await outcomes(*asked) == [Unavailable] * 2
        assert noting.batches == [[1, 2]]
        late.set()
        await eventually_async(lambda: is_idle(owner), "the server has heard the end")
    assert await noted(owner) in ([], [1, 2])
