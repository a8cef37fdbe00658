"""Errands end with the leadership they belong to, also those that miss being told."""

import asyncio
from collections.abc import Awaitable, Callable
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
        errands = Errands(lambda: None, {("memory", "act"): 1})
        async with errands.running():
            errands.start(WorkspaceId(uuid4()), None, ("memory", "act"), deaf)
            await began.wait()
    assert not errands.busy()
    assert not errands.results(), "what was cut off has no result: the next leader looks for itself"


async def test_as_many_run_at_once_as_their_backend_bears() -> None:
    running: dict[str, int] = {"narrow": 0, "wide": 0}

    def waiting(backend: str) -> Callable[[], Awaitable[Result]]:
        async def errand() -> Result:
            running[backend] += 1
            await asyncio.Event().wait()
            return DONE

        return errand

    errands = Errands(lambda: None, {("narrow", "start"): 2, ("wide", "start"): 50})
    async with errands.running():
        for backend in running:
            for _ in range(50):
                errands.start(WorkspaceId(uuid4()), None, (backend, "start"), waiting(backend))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running == {"narrow": 2, "wide": 50}
