"""Questions to the leader: answered, refused in words, or given up in time; nothing is left behind."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from codehub.coordinator.answers import MOST_BYTES, MOST_LINES, logs_of, newest
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.things import Instance, Volume
from codehub.errors import OverLimit, Unavailable, Unreachable
from codehub.model.observation import Life
from codehub.model.workspace import Incarnation, InstanceBackend, OpId, WorkspaceId
from codehub.signals import questions
from codehub.signals.connect import Redis, open_redis
from codehub.signals.questions import Answerer, Body
from tests.lab.wire import wire_to_redis
from tests.support import background, eventually_async


async def ask(redis: Redis, kind: str, body: Body, seconds: float, asker: str | None = None) -> Any:
    """… for somebody who asks nothing else."""
    return await questions.ask(redis, kind, body, seconds, asker=asker or uuid4().hex)


@asynccontextmanager
async def answering(redis: Redis, **handlers: Any) -> AsyncIterator[None]:
    async with background(Answerer(redis, handlers).run()):
        yield


async def echo(body: Body) -> Any:
    return {"said": body["say"]}


async def test_a_question_is_answered_and_nothing_is_left_behind(redis: Redis) -> None:
    async with answering(redis, echo=echo):
        assert await ask(redis, "echo", {"say": "hé\n"}, 10) == {"said": "hé\n"}
    assert await redis.keys() == []


async def test_many_at_once_get_their_own_answers(redis: Redis) -> None:
    async with answering(redis, echo=echo):
        answers = await asyncio.gather(*(ask(redis, "echo", {"say": number}, 10) for number in range(50)))
    assert [answer["said"] for answer in answers] == list(range(50))


async def test_without_a_leader_it_is_given_up_in_time_and_expires(redis: Redis) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(Unavailable, match="did not answer in time"):
        await ask(redis, "echo", {"say": 1}, 0.2)
    assert loop.time() - started < 2
    assert all([await redis.pttl(key) != -1 for key in await redis.keys()]), "every key expires by itself"
    heard: list[Body] = []

    async def late(body: Body) -> None:
        heard.append(body)

    await eventually_async(lambda: _none(redis, f"{questions.QUESTION}*"), "the question has expired")
    async with answering(redis, echo=late, other=echo):
        assert await ask(redis, "other", {"say": 2}, 10) == {"said": 2}
    assert heard == [], "a leader that comes later does not work for whoever has given up"


async def _none(redis: Redis, pattern: str) -> bool:
    return not await redis.keys(pattern)


async def test_a_leader_that_comes_in_time_answers_what_waits(redis: Redis) -> None:
    asked = asyncio.create_task(ask(redis, "echo", {"say": 1}, 10))
    await eventually_async(lambda: _is_asked(redis), "it waits")
    async with answering(redis, echo=echo):
        assert await asked == {"said": 1}


async def _is_asked(redis: Redis) -> bool:
    return await redis.exists(questions.QUEUE) == 1


async def test_one_slow_answer_holds_up_no_other(redis: Redis) -> None:
    gate = asyncio.Event()

    async def slow(_body: Body) -> str:
        await gate.wait()
        return "at last"

    async with answering(redis, slow=slow, echo=echo):
        waiting = asyncio.create_task(ask(redis, "slow", {}, 10))
        await eventually_async(lambda: _none(redis, questions.QUEUE), "it is being worked on")
        assert await ask(redis, "echo", {"say": 1}, 10) == {"said": 1}
        gate.set()
        assert await waiting == "at last"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unknown", "does not know this question"),
        ("out", "The engine is away."),
        ("broken", "its log has the details"),
        ("long", "too long"),
    ],
)
async def test_what_cannot_be_answered_is_told_in_words(redis: Redis, kind: str, words: str) -> None:
    async def out(_body: Body) -> None:
        raise Unreachable("The engine is away.")

    async def broken(_body: Body) -> None:
        raise ZeroDivisionError("a secret")

    async def long(_body: Body) -> str:
        return "x" * (2 << 20)

    async with answering(redis, out=out, broken=broken, long=long):
        with pytest.raises(Unavailable, match=words) as refused:
            await ask(redis, kind, {}, 10)
        assert "secret" not in str(refused.value)


async def test_a_handler_that_never_returns_ends_with_its_question(redis: Redis) -> None:
    ended = asyncio.Event()

    async def stuck(_body: Body) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with answering(redis, stuck=stuck):
        with pytest.raises(Unavailable):
            await ask(redis, "stuck", {}, 0.2)
        async with asyncio.timeout(10):
            await ended.wait()


async def test_whoever_goes_away_leaves_no_question_behind(redis: Redis) -> None:
    asked = asyncio.create_task(ask(redis, "echo", {"say": 1}, 60))
    await eventually_async(lambda: _is_asked(redis), "it waits")
    await _cancelled(asked)
    assert await redis.keys(f"{questions.QUESTION}*") == []


async def test_whoever_goes_away_is_left_no_answer(redis: Redis) -> None:
    gate = asyncio.Event()

    async def slow(_body: Body) -> str:
        await gate.wait()
        return "x" * 700_000

    async with answering(redis, slow=slow, echo=echo):
        asked = asyncio.create_task(ask(redis, "slow", {}, 60))
        await eventually_async(lambda: _none(redis, questions.QUEUE), "it is being worked on")
        await _cancelled(asked)
        gate.set()
        for number in range(5):  # each is answered after it
            assert await ask(redis, "echo", {"say": number}, 10) == {"said": number}
        assert await redis.keys() == []


async def _cancelled(asked: "asyncio.Task[Any]") -> None:
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_only_so_many_wait(redis: Redis) -> None:
    await redis.lpush(questions.QUEUE, *(f"old-{number}" for number in range(1500)))
    with pytest.raises(Unavailable):
        await ask(redis, "echo", {"say": 1}, 0.2)
    waiting = await redis.lrange(questions.QUEUE, 0, -1)
    assert len(waiting) == 1000
    assert waiting[-1] == b"old-501", "the oldest went"


async def test_redis_away_is_told_at_once_and_answers_come_again_afterwards(server_redis: str, redis: Redis) -> None:
    async with (
        wire_to_redis(server_redis) as (wire, url),
        open_redis(url) as through_the_wire,
        answering(through_the_wire, echo=echo),
    ):
        assert await ask(through_the_wire, "echo", {"say": 1}, 10) == {"said": 1}
        await wire.cut()
        with pytest.raises(Unavailable):
            await ask(through_the_wire, "echo", {"say": 2}, 5)
        await wire.mend()
        assert await ask(redis, "echo", {"say": 3}, 10) == {"said": 3}


async def test_a_silent_redis_is_given_up_in_time(server_redis: str) -> None:
    async with wire_to_redis(server_redis) as (wire, url), open_redis(url) as through_the_wire:
        await through_the_wire.ping()
        wire.silence()
        with pytest.raises(Unavailable):
            await ask(through_the_wire, "echo", {"say": 2}, 0.3)


# -- logs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld()


def with_log(world: MemoryWorld, lines: list[str]) -> WorkspaceId:
    identity = WorkspaceId(uuid4())
    world.instances[identity] = Instance(
        OpId(uuid4()), "ide", Volume(Incarnation("1"), "u"), Life.READY, endpoint="e", log=lines
    )
    return identity


async def logs(world: MemoryWorld, identity: object, lines: object = 10, backend: str = "process") -> Any:
    handler = logs_of({InstanceBackend.PROCESS: world.backend()})
    return await handler({"workspace_id": str(identity), "backend": backend, "lines": lines})


async def test_the_last_lines_of_a_workspace(world: MemoryWorld) -> None:
    identity = with_log(world, ["one", "two", "three"])
    assert await logs(world, identity, 2) == {"text": "two\nthree", "cut": False}
    assert await logs(world, uuid4()) == {"text": "", "cut": False}


async def test_logs_are_bounded_by_lines_and_bytes(world: MemoryWorld) -> None:
    identity = with_log(world, ["x" * 1000] * (MOST_LINES + 1000))
    answer = await logs(world, identity, 10**9)
    assert answer["cut"]
    assert len(answer["text"].encode()) <= MOST_BYTES
    assert set(answer["text"].splitlines()) == {"x" * 1000}, "whole lines"
    short = with_log(world, [""] * (MOST_LINES + 1000))
    assert (await logs(world, short, 10**9))["text"].count("\n") == MOST_LINES - 1


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("ab\ncd\nef", 5, "cd\nef"),
        ("ab\ncd\nef", 4, "ef"),
        ("ab\ncd\nef", 8, "ab\ncd\nef"),
        ("abcdef", 3, "def"),
        ("ééé", 3, "é"),
        ("abcdef\n", 3, "ef\n"),
    ],
)
def test_the_newest_that_fits(text: str, most: int, kept: str) -> None:
    assert newest(text, most) == kept


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body | {"workspace_id": "../etc"},
        lambda body: body | {"lines": "many"},
        lambda body: body | {"backend": "docker"},
        lambda body: body | {"backend": "none"},
        lambda _body: {},
    ],
)
async def test_a_question_that_is_none(world: MemoryWorld, change: Callable[[dict[str, object]], Body]) -> None:
    handler = logs_of({InstanceBackend.PROCESS: world.backend()})
    with pytest.raises(Unavailable):
        await handler(change({"workspace_id": str(uuid4()), "backend": "process", "lines": 10}))


async def test_one_user_does_not_take_every_place(redis: Redis) -> None:
    asked = [asyncio.create_task(ask(redis, "echo", {"say": number}, 10, "ada")) for number in range(2)]

    async def both_wait() -> bool:
        return await redis.llen(questions.QUEUE) == 2

    await eventually_async(both_wait, "both wait")
    with pytest.raises(OverLimit):
        await ask(redis, "echo", {"say": 2}, 10, "ada")
    async with answering(redis, echo=echo):
        assert await ask(redis, "echo", {"say": 3}, 10, "bob") == {"said": 3}
        assert [each["said"] for each in await asyncio.gather(*asked)] == [0, 1]
        assert await ask(redis, "echo", {"say": 4}, 10, "ada") == {"said": 4}


async def test_whoever_waits_takes_nobodys_connection(redis: Redis) -> None:
    waiting = [asyncio.create_task(ask(redis, "echo", {"say": 1}, 10)) for _ in range(40)]

    async def thirty_wait() -> bool:
        return await redis.llen(questions.QUEUE) == 30

    await eventually_async(thirty_wait, "as many as may wait")
    assert len(redis.connection_pool._in_use_connections) == 0
    async with answering(redis, echo=echo):
        assert len(await asyncio.gather(*waiting)) == 40
