"""Errands end with the leadership they belong to, also those that miss being told."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import uuid4

import pytest

from codehub.coordinator.errands import DONE, Errands, Failed, Result
from codehub.model.workspace import ErrorReason, OpId, WorkspaceId


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


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("can't start new thread"),
        MemoryError(),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
    ],
)
async def test_what_this_process_is_short_of_is_an_outage_and_no_fault_of_a_workspace(error: Exception) -> None:
    """Else every workspace that is looked at meanwhile would end in ERROR."""

    async def short() -> Result:
        raise error

    acted, looked, op_id = WorkspaceId(uuid4()), WorkspaceId(uuid4()), OpId(uuid4())
    errands = Errands(lambda: None, {("memory", "act"): 2})
    async with errands.running():
        errands.start(acted, op_id, ("memory", "act"), short)
        errands.start(looked, None, ("memory", "act"), short)
        async with asyncio.timeout(10):
            while errands.busy():  # noqa: ASYNC110 - they end by themselves
                await asyncio.sleep(0)
        results = errands.results()
    for identity in (acted, looked):
        result = results[identity]
        assert isinstance(result, Failed)
        assert result.fault.reason is ErrorReason.UNREACHABLE
