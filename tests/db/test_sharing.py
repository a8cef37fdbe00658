"""Reads that are shared: fewer than there are questions, and none of them older than its question. (Writes: beside.)"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from codehub.db.pool import Connection, Pool, Role, Timeouts, open_pool
from codehub.db.sharing import read_shared
from codehub.errors import Unavailable


@dataclass
class Doubling:
    """A kind of question whose reads can be held up, and fail."""

    reads: list[set[int]] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    async def answer(self, conn: Connection, asked: Sequence[int]) -> dict[int, int]:
        self.reads.append(set(asked))
        await self.go_on.wait()
        if self.fails:
            raise Unavailable("Not now.")
        rows = await (await conn.execute("SELECT n, 2 * n FROM unnest(%s::int[]) AS n", [list(asked)])).fetchall()
        return {number: double for number, double in rows if number > 0}


@pytest.fixture
def doubling() -> Doubling:
    return Doubling()


@pytest.fixture
async def hurried(database: str) -> AsyncIterator[Pool]:
    async with open_pool(database, Role.API, timeouts=Timeouts(answer=0.3)) as pool:
        yield pool


def ask(pool: Pool, doubling: Doubling, key: int) -> "asyncio.Task[int | None]":
    return asyncio.create_task(read_shared(pool, doubling.answer, key))


async def turns(count: int = 5) -> None:
    """What can happen without the database has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


async def begun(doubling: Doubling, reads: int) -> None:
    async with asyncio.timeout(10):
        while len(doubling.reads) < reads:  # noqa: ASYNC110 - the reads belong to the code under test
            await asyncio.sleep(0.001)


async def test_who_asks_at_once_shares_a_read(pool: Pool, doubling: Doubling) -> None:
    doubling.go_on.set()
    assert await asyncio.gather(*(ask(pool, doubling, key) for key in (1, 2, 2, 3, -1))) == [2, 4, 4, 6, None]
    assert doubling.reads[0] == {1, 2, 3, -1}
    assert len(doubling.reads) == 1


async def test_an_answer_is_never_older_than_its_question(pool: Pool, doubling: Doubling) -> None:
    first = ask(pool, doubling, 1)
    await begun(doubling, 1)
    second = ask(pool, doubling, 1)  # the first read may have looked already
    await begun(doubling, 2)
    late = [ask(pool, doubling, key) for key in (1, 2)]  # … and so may the second
    await turns()
    assert doubling.reads == [{1}, {1}]
    doubling.go_on.set()
    assert [await each for each in (first, second, *late)] == [2, 2, 2, 4]
    assert doubling.reads == [{1}, {1}, {1, 2}]


async def test_a_failure_is_told_to_everybody_who_asked_and_to_nobody_after(pool: Pool, doubling: Doubling) -> None:
    doubling.fails = True
    doubling.go_on.set()
    failed = await asyncio.gather(*(ask(pool, doubling, 1) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in failed)
    assert len({id(each) for each in failed}) == 3
    doubling.fails = False
    assert await ask(pool, doubling, 1) == 2


async def test_one_who_leaves_takes_nobody_along(pool: Pool, doubling: Doubling) -> None:
    leaves, stays = ask(pool, doubling, 1), ask(pool, doubling, 1)
    await begun(doubling, 1)
    leaves.cancel()
    await turns()
    doubling.go_on.set()
    assert await stays == 2
    assert leaves.cancelled()


async def test_nobody_waits_longer_than_for_a_read_of_their_own(hurried: Pool, doubling: Doubling) -> None:
    """Also those behind reads that hang."""
    started = asyncio.get_running_loop().time()
    asked = [ask(hurried, doubling, 1)]
    await begun(doubling, 1)
    asked.append(ask(hurried, doubling, 2))
    await begun(doubling, 2)
    asked.append(ask(hurried, doubling, 3))
    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in failed)
    assert asyncio.get_running_loop().time() - started < 0.3 * 2
    doubling.go_on.set()
    assert await ask(hurried, doubling, 4) == 8


async def test_nobody_is_stranded_behind_reads_that_have_just_ended(hurried: Pool) -> None:
    """Two reads that end in one turn of the loop, and whom the first one answers asks again at once."""
    asked: list[Sequence[int]] = []
    go_on = asyncio.Event()

    async def work(_conn: Connection, keys: Sequence[int]) -> dict[int, int]:
        asked.append(keys)
        await go_on.wait()
        return {key: key for key in keys}

    async def again_and_again(key: int, times: int) -> int | None:
        for _ in range(times - 1):
            await read_shared(hurried, work, key)
        return await read_shared(hurried, work, key)

    callers = []
    for key, times in ((1, 2), (2, 1)):
        callers.append(asyncio.create_task(again_and_again(key, times)))
        async with asyncio.timeout(10):
            while len(asked) < key:  # noqa: ASYNC110 - the reads belong to the code under test
                await asyncio.sleep(0.001)
    go_on.set()
    assert await asyncio.gather(*callers) == [1, 2]
