"""Reads that many ask for at once are one read; writes that many ask for at once are one transaction.

Whoever asks is answered by a statement that is sent after they asked, so nobody learns less than with a read of their
own. What is asked while all `_MOST_AT_ONCE` reads are under way waits for the next one, which is for all of them. It is
for what is quick: a slow question would have others wait for its answer.

Writes are told apart: what one of them may not do costs the others nothing, and nobody hears of a success before it is
committed. Should one of them break, each gets a transaction of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from codehub.db.pool import Connection, Pool, connection, read
from codehub.errors import ServiceError, Unavailable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")
Write = Callable[[Connection, Sequence[W]], Awaitable[Sequence[V | ServiceError]]]
Work = Callable[[Connection, Sequence[K]], Awaitable[Mapping[K, V]]]

_MOST_AT_ONCE = 2  # of one kind; more of them would be smaller
_MOST_TOGETHER = 32  # writes: whoever else needs the same rows does not wait for long


async def read_shared(pool: Pool, work: Work[K, V], key: K) -> V | None:
    """What `work`, a function that answers many keys at once, has for this one. Raises Unavailable."""
    reads: SharedReads[K, V] | None = pool.shared.get(work)
    if reads is None:
        reads = pool.shared[work] = SharedReads(pool, work)
    return await reads.ask(key)


async def write_shared(pool: Pool, work: Write[W, V], wanted: W) -> V:
    """What `work`, which does many in one transaction and has an outcome for each, did of this one.

    Raises the ServiceError that is its outcome, or Unavailable.
    """
    writes: SharedWrites[W, V] | None = pool.shared.get(work)
    if writes is None:
        writes = pool.shared[work] = SharedWrites(pool, work)
    return await writes.ask(wanted)


class SharedReads(Generic[K, V]):
    """Everybody who asks one kind of question."""

    def __init__(self, pool: Pool, work: Work[K, V]) -> None:
        self._pool = pool
        self._work = work
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, key: K) -> V | None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V | None] = loop.create_future()
        self._waiting.setdefault(key, []).append(answer)
        if len(self._under_way) < _MOST_AT_ONCE:
            # It begins after everybody who asks in this turn of the loop.
            self._under_way.add(task := loop.create_task(self._read()))
            task.add_done_callback(self._under_way.discard)
        return await _in_time(answer, self._pool.answer_seconds)

    async def _read(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            keys = list(asked)
            try:
                found = await read(self._pool, lambda conn, keys=keys: self._work(conn, keys))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - it is for those who asked
                for answer in _all(asked):
                    _fail(answer, error)
                continue
            for key, answers in asked.items():
                value = found.get(key)
                for answer in answers:
                    if not answer.done():
                        answer.set_result(value)


class SharedWrites(Generic[W, V]):
    """Everybody who wants one kind of change."""

    def __init__(self, pool: Pool, work: Write[W, V]) -> None:
        self._pool = pool
        self._work = work
        self._waiting: list[tuple[W, asyncio.Future[V]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, wanted: W) -> V:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V] = loop.create_future()
        self._waiting.append((wanted, answer))
        if len(self._under_way) < _MOST_AT_ONCE:
            self._under_way.add(task := loop.create_task(self._write()))
            task.add_done_callback(self._under_way.discard)
        return await _in_time(answer, self._pool.answer_seconds)

    async def _write(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
            asked = [(wanted, answer) for wanted, answer in asked if not answer.done()]  # the others have given up
            try:
                await self._do(asked)
            except Exception as error:  # noqa: BLE001 - it is for whoever asked
                for one in asked:
                    if isinstance(error, Unavailable) or len(asked) == 1:
                        _fail(one[1], error)
                    else:
                        await self._do_alone(one)

    async def _do(self, asked: Sequence[tuple[W, asyncio.Future[V]]]) -> None:
        if not asked:
            return
        async with connection(self._pool) as conn:
            outcomes = await self._work(conn, [wanted for wanted, _ in asked])
        for (_, answer), outcome in zip(asked, outcomes, strict=True):
            if answer.done():
                continue
            if isinstance(outcome, ServiceError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

    async def _do_alone(self, one: tuple[W, asyncio.Future[V]]) -> None:
        try:
            await self._do([one])
        except Exception as error:  # noqa: BLE001 - it is for whoever asked
            _fail(one[1], error)


async def _in_time(answer: "asyncio.Future[V]", seconds: float | None) -> V:
    """Its result, or Unavailable."""
    if seconds is None:
        return await answer
    alarm = asyncio.get_running_loop().call_later(seconds, _fail, answer, None)
    try:
        return await answer
    finally:
        alarm.cancel()


def _all(asked: Mapping[K, list[asyncio.Future[V]]]) -> list[asyncio.Future[V]]:
    return [answer for answers in asked.values() for answer in answers]


def _fail(answer: asyncio.Future[V], error: Exception | None) -> None:
    """An exception of its own for everybody: one that is raised twice would carry the other's trace."""
    if answer.done():
        return
    if error is None or isinstance(error, Unavailable):
        error = Unavailable("The database did not answer in time.", "Try again in a moment.")
    answer.set_exception(error)
