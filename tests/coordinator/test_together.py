"""together: whatever loses a cancellation is told again; failures come out, and nobody is left."""

import asyncio
from contextlib import suppress

import pytest

from codehub.errors import StaleLeader
from codehub.together import finished, together


class Deaf:
    """Loses the first cancellations that reach it."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.ended = False

    async def run(self) -> None:
        try:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.losses -= 1
                    if self.losses < 0:
                        raise
        finally:
            self.ended = True


async def fail() -> None:
    raise StaleLeader("Leadership 1 has ended.")


async def test_a_failure_ends_one_that_loses_its_cancellation() -> None:
    deaf = Deaf(1)
    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(10):
            await together({"deaf": deaf.run(), "fails": fail()})
    assert raised.group_contains(StaleLeader)
    assert deaf.ended


async def test_being_cancelled_ends_them_all() -> None:
    deaf = Deaf(1)
    task = asyncio.create_task(together({"deaf": deaf.run(), "other": Deaf(0).run()}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert task.cancelled()
    assert deaf.ended


async def test_being_cancelled_again_meanwhile_leaves_nobody() -> None:
    deaf = Deaf(3)
    task = asyncio.create_task(together({"deaf": deaf.run()}))
    await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert deaf.ended


async def test_what_must_finish_does_however_often_we_are_told_to_stop() -> None:
    over, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await over.wait()
        done.set()

    waiting = asyncio.create_task(finished(asyncio.create_task(work())))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    over.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done.is_set()
