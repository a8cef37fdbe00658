"""Loop: a failing run is skipped and told once, waking hurries, only a lost leadership gets out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from codehub.coordinator.loop import Loop
from codehub.errors import StaleLeader, Unavailable

FOR_EVER = 3600.0


class Work:
    """Does what its script says, one entry per run; `ran` counts."""

    def __init__(self, *script: bool | Exception | None) -> None:
        self.script = list(script)
        self.ran = 0
        self.idle = asyncio.Event()

    async def __call__(self) -> bool | None:
        self.ran += 1
        outcome = self.script.pop(0) if self.script else None
        if not self.script:
            self.idle.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def run_until(loop: Loop, until: Callable[[], Awaitable[object]]) -> None:
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(20):
            await until()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def ran(work: Work, times: int) -> None:
    while work.ran < times:  # noqa: ASYNC110 - what the loop under test counts
        await asyncio.sleep(0)


async def test_it_runs_at_once_and_then_by_its_period() -> None:
    work, periods = Work(), [0.001, 0.001, FOR_EVER]
    await run_until(Loop("l", work, lambda: periods.pop(0)), lambda: ran(work, 3))
    assert periods == [] or work.ran == 3


async def test_more_to_do_follows_at_once() -> None:
    work = Work(True, True, False)
    loop = Loop("l", work, lambda: FOR_EVER)
    await run_until(loop, work.idle.wait)
    assert work.ran == 3
    assert (loop.status.runs, loop.status.failures, loop.status.is_failing) == (3, 0, False)


async def test_waking_hurries_and_many_are_one() -> None:
    work = Work(None, None)
    loop = Loop("l", work, lambda: FOR_EVER)

    async def wake() -> None:
        await ran(work, 1)
        loop.wake()
        loop.wake()
        await ran(work, 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert work.ran == 2

    await run_until(loop, wake)


async def test_a_wake_during_a_run_is_not_lost() -> None:
    loop: Loop
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            loop.wake()

    async def second() -> None:
        while runs < 2:  # noqa: ASYNC110 - what the loop under test counts
            await asyncio.sleep(0)

    loop = Loop("l", work, lambda: FOR_EVER)
    await run_until(loop, second)


async def test_failures_are_counted_and_told_once_per_cause() -> None:
    work = Work(Unavailable("away"), Unavailable("away"), ValueError("bug"), None, Unavailable("away"))
    loop = Loop("l", work, lambda: 0.0)
    with capture_logs() as logs:
        await run_until(loop, work.idle.wait)
    told = [entry for entry in logs if entry["log_level"] == "error"]
    assert [entry["cause"] for entry in told] == ["away", "ValueError: bug", "away"]
    assert [bool(entry["exc_info"]) for entry in told] == [False, True, False]
    assert len([entry for entry in logs if entry["log_level"] == "info"]) >= 1
    assert loop.status.failures == 4


async def test_the_status_tells_since_when_it_fails() -> None:
    work = Work(Unavailable("away"), Unavailable("gone"))
    loop = Loop("l", work, lambda: 0.0 if work.ran < 2 else FOR_EVER)
    started = asyncio.get_running_loop().time()

    async def failed_twice() -> None:
        while loop.status.failures < 2:  # noqa: ASYNC110 - what the loop under test counts
            await asyncio.sleep(0)

    await run_until(loop, failed_twice)
    assert loop.status.is_failing
    assert loop.status.last_error == "gone"
    since = loop.status.failing_since
    assert since is not None
    assert started <= since
    assert loop.status.last_started is not None
    assert since <= loop.status.last_started


async def test_only_a_lost_leadership_ends_it() -> None:
    work = Work(ValueError("bug"), StaleLeader("replaced"))
    with pytest.raises(StaleLeader):
        await Loop("l", work, lambda: 0.0).run()
    assert work.ran == 2
