"""Reads that many ask for at once are one read; writes that many ask for at once are one transaction.

Whoever asks is answered by a statement that is sent after they asked, so nobody learns less than with a read of their
own. What is asked while all `_MOST_AT_ONCE` reads are under way waits for the next one, which is for all of them. It is
for what is quick: a slow question would have others wait for its answer.

Writes are told apart: what one of them may not do costs the others nothing, and nobody hears of a success before it is
committed. Should one of them break, each gets a transaction of its own. Nothing is begun for whoever has been told that
there was no answer, and what is under way ends with the time of whoever has waited longest; only a commit that is cut
off, of which nobody knows, may be found written afterwards. Nor is anything begun for whoever would hardly live to see
its end: it would be cut off with them, for everybody, and an overload would serve nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from codehub.db.pool import Connection, Pool, connection, read
from codehub.errors import ServiceError, Unavailable

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")
Write = Callable[[Connection, Sequence[W]], Awaitable[Sequence[V | ServiceError]]]
Work = Callable[[Connection, Sequence[K]], Awaitable[Mapping[K, V]]]

_MOST_AT_ONCE = 2  # of one kind; more of them would be smaller
_MOST_TOGETHER = 32  # writes: whoever else needs the same rows does not wait for long
_LEAST_SECONDS = 0.3  # that one who asks for a write must have left, or what the last transaction took:
_AS_THE_LAST = 1.1  # a little more than that
_MOST_OF_THE_TIME = 0.9  # that everybody has for an answer, never more


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


class _Workers:
    """A few tasks that all do what waits, until nothing does."""

    def __init__(self, do_all: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._do_all = do_all
        self._under_way: set[asyncio.Task[None]] = set()

    def call(self) -> None:
        """There is something to do: it begins after everybody who asks in this turn of the loop."""
        if len(self._under_way) < _MOST_AT_ONCE:
            self._under_way.add(asyncio.get_running_loop().create_task(self._work()))

    async def _work(self) -> None:
        try:
            await self._do_all()
        finally:
            # At once: whoever asks after this task has looked for the last time must find it gone.
            task = asyncio.current_task()
            assert task is not None
            self._under_way.discard(task)


class SharedReads(Generic[K, V]):
    """Everybody who asks one kind of question."""

    def __init__(self, pool: Pool, work: Work[K, V]) -> None:
        self._pool = pool
        self._work = work
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._workers = _Workers(self._read)

    async def ask(self, key: K) -> V | None:
        answer: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(answer)
        self._workers.call()
        return await _in_time(answer, self._pool.answer_seconds)

    async def _read(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            keys = list(asked)
            try:
                found = await read(self._pool, lambda conn, keys=keys: self._work(conn, keys))  # type: ignore[misc]  # of a default
            except Exception as error:  # noqa: BLE001 - it is for those who asked
                for answer in _all(asked):
                    _fail(answer, error)
                continue
            for key, answers in asked.items():
                value = found.get(key)
                for answer in answers:
                    if not answer.done():
                        answer.set_result(value)


@dataclass(frozen=True, slots=True)
class _Asked(Generic[W, V]):
    wanted: W
    answer: asyncio.Future[V]
    until: float | None  # by the loop's clock: then its commit must have begun


class SharedWrites(Generic[W, V]):
    """Everybody who wants one kind of change."""

    def __init__(self, pool: Pool, work: Write[W, V]) -> None:
        self._pool = pool
        self._work = work
        self._waiting: list[_Asked[W, V]] = []
        self._took = 0.0  # seconds, the last transaction that was done
        self._workers = _Workers(self._write)

    async def ask(self, wanted: W) -> V:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V] = loop.create_future()
        seconds = self._pool.answer_seconds
        self._waiting.append(_Asked(wanted, answer, None if seconds is None else loop.time() + seconds))
        self._workers.call()
        return await _in_time(answer, None if seconds is None else seconds + self._pool.commit_seconds)

    async def _write(self) -> None:
        while self._waiting:
            picked, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
            asked = self._in_good_time(picked)
            if not asked:
                continue
            try:
                await self._do(asked)
            except Exception as error:  # it is for whoever asked
                if isinstance(error, Unavailable) or len(asked) == 1:
                    for one in asked:
                        _fail(one.answer, error)
                    continue
                log.warning("writes that were shared failed; each is tried alone", count=len(asked), exc_info=error)
                for one in asked:
                    await self._do_alone(one)

    async def _do(self, asked: Sequence[_Asked[W, V]]) -> None:
        until = min((one.until for one in asked if one.until is not None), default=None)
        outcomes: Sequence[V | ServiceError] | None = None
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with connection(self._pool, until) as conn:
                outcomes = await self._work(conn, [one.wanted for one in asked])
        except Unavailable:
            if outcomes is not None or until is None or now() < until:
                raise
            self._waiting[:0] = asked  # nothing is written, and some of them may have time left
            return
        self._took = now() - began
        for one, outcome in zip(asked, outcomes, strict=True):
            if one.answer.done():
                continue
            if isinstance(outcome, ServiceError):
                one.answer.set_exception(outcome)
            else:
                one.answer.set_result(outcome)

    async def _do_alone(self, one: _Asked[W, V]) -> None:
        try:
            if self._in_good_time([one]):  # the others took their time
                await self._do([one])
        except Exception as error:  # noqa: BLE001 - it is for whoever asked
            _fail(one.answer, error)

    def _in_good_time(self, asked: Sequence[_Asked[W, V]]) -> Sequence[_Asked[W, V]]:
        """Those who still wait and have time left for a transaction; the others are told at once."""
        # Less than everybody has, so that whoever asks while nothing is under way is always served.
        most = _MOST_OF_THE_TIME * (self._pool.answer_seconds or 0.0)
        least = min(max(_LEAST_SECONDS, _AS_THE_LAST * self._took), most)
        latest = asyncio.get_running_loop().time() + least
        for one in asked:
            if one.until is not None and one.until <= latest:
                _fail(one.answer, None)
        return [one for one in asked if not one.answer.done()]


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
