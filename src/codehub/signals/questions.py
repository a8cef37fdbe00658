"""Questions that only the leader can answer, since other processes have no access to the infrastructure.

    codehub:questions         ids that wait for whoever leads, at most `_MOST_WAITING`
    codehub:question:{id}     {"kind", "body"}, until it is answered or whoever asked has given up
    codehub:answer:{id}       {"answer"} or {"error"}, for as long

Whoever goes away takes both along: an answer may be large, and is left only where its question still stands. Every key
expires by itself, and nothing here changes anything: a question that is lost, or answered by a leader that
has been replaced, costs its asker a moment. Whoever waits for an answer has a connection of their own, so that nobody
else waits for one; how many do at once is limited, in a process and of one user.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

import structlog

from codehub.errors import CodeHubError, OverLimit, Unavailable
from codehub.signals.connect import Redis, answering, apart

log = structlog.get_logger(__name__)

QUEUE, QUESTION, ANSWER = "codehub:questions", "codehub:question:", "codehub:answer:"

_MOST_WAITING = 1000
_MOST_AT_ONCE = 16  # that one leader works on
_MOST_ASKED = 30  # at once by one process; others wait
MOST_OF_ONE = 2  # … by one user; more are refused
_LONGEST_ANSWER = 1 << 20
_ASKER_WAITS_SECONDS = 1  # of one call
_ANSWERER_WAITS_SECONDS = 5
_ASKER_PATIENCE_SECONDS = 1.5  # who waits for it over HTTP is told within two seconds
_ANSWERER_PATIENCE_SECONDS = 10.0  # on a busy machine the answer takes some more
_AGAIN_SECONDS = 1.0

_LEAVE = """
if redis.call('DEL', KEYS[1]) == 1 then
    redis.call('LPUSH', KEYS[2], ARGV[1])
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
"""

Body = Mapping[str, Any]
Handler = Callable[[Body], Awaitable[Any]]


@dataclass(slots=True)
class _Room:
    """Who asks through one client: a process has one."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_ASKED))
    asking: Counter[str] = field(default_factory=Counter)
    exchanges: set[asyncio.Task[Any]] = field(default_factory=set)  # so that each ends in its own time

    @contextmanager
    def place_of(self, asker: str) -> Iterator[None]:
        if self.asking[asker] >= MOST_OF_ONE:
            raise OverLimit("You wait for answers already.", "Try again when one has come.", retry_after=1)
        self.asking[asker] += 1
        try:
            yield
        finally:
            self.asking[asker] -= 1
            self.asking += Counter()  # forgets whoever asks no more


_rooms: WeakKeyDictionary[Redis, _Room] = WeakKeyDictionary()


async def ask(
    client: Redis,
    kind: str,
    body: Body,
    timeout: float,  # noqa: ASYNC109 - told to the one who answers, too
    *,
    asker: str,
) -> Any:  # noqa: ANN401 - whatever JSON it is
    """The leader's answer; raises Unavailable when there is none in time, with what the leader said is wrong.

    `asker` is the user for whom it is asked: of one too many of theirs OverLimit is raised.
    """
    room = _rooms.setdefault(client, _Room())
    exchange = asyncio.create_task(_asked(client, room, kind, body, timeout, asker=asker))
    room.exchanges.add(exchange)
    exchange.add_done_callback(room.exchanges.discard)
    try:
        await asyncio.wait({exchange})
    except asyncio.CancelledError:
        exchange.cancel()  # once: whoever leaves may be told so at every step, which would keep it from cleaning up
        await asyncio.wait({exchange})
        raise
    return exchange.result()


async def _asked(client: Redis, room: _Room, kind: str, body: Body, seconds: float, *, asker: str) -> Any:  # noqa: ANN401
    identity = uuid4().hex
    with room.place_of(asker):
        try:
            async with asyncio.timeout(seconds), room.places, apart(client, seconds=_ASKER_PATIENCE_SECONDS) as own:
                return _understood(await _exchange(own, identity, kind, body, seconds))
        except TimeoutError:
            raise Unavailable("The coordinator did not answer in time.", "Try again in a moment.") from None
        except asyncio.CancelledError:
            await _withdraw(client, identity)
            raise


async def _withdraw(client: Redis, identity: str) -> None:
    """As long as one call may take; what is left expires."""
    with suppress(Unavailable), answering():
        await client.delete(f"{QUESTION}{identity}", f"{ANSWER}{identity}")


async def _exchange(client: Redis, identity: str, kind: str, body: Body, seconds: float) -> bytes:
    question = json.dumps({"kind": kind, "body": dict(body)})
    milliseconds = max(1, round(seconds * 1000))
    with answering():
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.set(f"{QUESTION}{identity}", question, px=milliseconds)
            pipeline.lpush(QUEUE, identity)
            pipeline.ltrim(QUEUE, 0, _MOST_WAITING - 1)
            pipeline.pexpire(QUEUE, milliseconds + 60_000)
            await pipeline.execute()
        while (found := await _pop(client, f"{ANSWER}{identity}", _ASKER_WAITS_SECONDS)) is None:
            pass
    return found


def _understood(found: bytes) -> Any:  # noqa: ANN401 - whatever JSON it is
    answer = json.loads(found)
    if "error" in answer:
        raise Unavailable(str(answer["error"]))
    return answer["answer"]


class Answerer:
    """Answers while it runs: as long as this process leads."""

    def __init__(self, client: Redis, handlers: Mapping[str, Handler]) -> None:
        self._client = client
        self._handlers = handlers
        self._leave = client.register_script(_LEAVE)
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._silent = ""  # why nothing is heard

    async def run(self) -> None:
        """For ever; ends only by being cancelled."""
        async with apart(self._client, seconds=_ANSWERER_PATIENCE_SECONDS) as own, asyncio.TaskGroup() as group:
            while True:
                await self._room.acquire()
                try:
                    identity = await self._next(own)
                except BaseException:
                    self._room.release()
                    raise
                group.create_task(self._attend(identity)).add_done_callback(lambda _: self._room.release())

    async def _next(self, own: Redis) -> str:
        while True:
            try:
                found = await _pop(own, QUEUE, _ANSWERER_WAITS_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may do
                if str(error) != self._silent:
                    log.warning("no questions can be heard", cause=str(error))
                self._silent = str(error)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            self._silent = ""
            if found is not None:
                return found.decode(errors="replace")

    async def _attend(self, identity: str) -> None:
        try:
            with answering():
                async with self._client.pipeline(transaction=True) as pipeline:
                    pipeline.pttl(f"{QUESTION}{identity}")
                    pipeline.get(f"{QUESTION}{identity}")
                    left, stored = cast("tuple[int, bytes | None]", await pipeline.execute())
            if stored is None or left <= 0:
                return  # whoever asked has given up
            answer = await self._answer(json.loads(stored), left / 1000)
            with answering():
                await self._leave(keys=[f"{QUESTION}{identity}", f"{ANSWER}{identity}"], args=[answer, left])
        except Unavailable as error:
            log.info("a question could not be answered", cause=str(error))
        except Exception:
            log.exception("a question broke its answerer")

    async def _answer(self, question: Mapping[str, Any], seconds: float) -> str:
        kind = str(question.get("kind"))
        handler = self._handlers.get(kind)
        if handler is None:
            return _error("The coordinator does not know this question; it may be of another version.")
        try:
            async with asyncio.timeout(seconds):
                answer = json.dumps({"answer": await handler(question["body"])})
        except TimeoutError:
            return _error("The coordinator found no answer in time.")
        except CodeHubError as error:
            return _error(str(error))
        except Exception:
            log.exception("a question could not be answered", kind=kind)
            return _error("The coordinator could not answer; its log has the details.")
        return answer if len(answer) <= _LONGEST_ANSWER else _error("The answer is too long.")


async def _pop(client: Redis, key: str, seconds: int) -> bytes | None:
    """The oldest entry; None when there was none for so long."""
    with answering():
        found = await cast("Awaitable[list[bytes] | None]", client.brpop([key], timeout=seconds))
    return None if found is None else found[1]


def _error(message: str) -> str:
    return json.dumps({"error": message})
