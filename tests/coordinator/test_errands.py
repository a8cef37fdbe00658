"""Errands end with the leadership they belong to, also those that miss being told."""

import asyncio
from contextlib import suppress
from uuid import uuid4

from codehub.coordinator.errands import DONE, Errands, Result
from codehub.model.workspace import WorkspaceId


async def test_one_that_misses_its_cancellation_is_told_again() -> None:
    began = asyncio.Event()

    async def deaf() -> Result:
        with suppress(asyncio.CancelledError):
            began.set()
            await asyncio.Event().wait()
        await asyncio.Event().wait()
        return DONE

    async with asyncio.timeout(10):
        errands = Errands(lambda: None, {"act": 1})
        async with errands.running():
            errands.start(WorkspaceId(uuid4()), None, ("memory", "act"), deaf)
            await began.wait()
    assert not errands.busy()
    assert not errands.results(), "what was cut off has no result: the next leader looks for itself"
