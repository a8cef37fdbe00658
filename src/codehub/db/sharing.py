"""Reads that many ask for at once are one read.

Whoever asks is answered by a statement that is sent after they asked, so nobody learns less than with a read of their
own. What is asked while all `_MOST_AT_ONCE` reads are under way waits for the next one, which is for all of them. It is
for what is quick: a slow question would have others wait for its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from codehub.db.pool import Connection, Pool, read
from codehub.errors import Unavailable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Work = Callable[[Connection, Sequence[K]], Awaitable[Mapping[K, V]]]

_MOST_AT_ONCE = 2  # of one kind; more of them would be smaller


async def read_shared(pool: Pool, work: Work[K, V], key: K) -> V | None:
    """What `work`, a function that answers many keys at once, has for this one. Raises Unavailable."""
    reads: SharedReads[K, V] | None = pool.shared.get(work)
    if reads is None:
        reads = pool.shared[work] = SharedReads(pool, work)
    return await reads.ask(key)


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
        seconds = self._pool.answer_seconds
        if seconds is None:
            return await answer
        alarm = loop.call_later(seconds, _fail, answer, None)
        try:
            return await answer
        finally:
            alarm.cancel()

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


def _all(asked: Mapping[K, list[asyncio.Future[V]]]) -> list[asyncio.Future[V]]:
    return [answer for answers in asked.values() for answer in answers]


def _fail(answer: asyncio.Future[V], error: Exception | None) -> None:
    """An exception of its own for everybody: one that is raised twice would carry the other's trace."""
    if answer.done():
        return
    if error is None or isinstance(error, Unavailable):
        error = Unavailable("The database did not answer in time.", "Try again in a moment.")
    answer.set_exception(error)
