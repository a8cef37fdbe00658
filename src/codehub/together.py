"""Tasks that end together, for certain.

A cancellation can get lost: redis-py drops one that arrives while it connects again, and so does wait_for of Python
3.11, which psycopg waits with, when the answer arrives at the same moment. A task that missed it would go on working,
for a leadership that has ended for example, and keep this process from standing by or from stopping. So it is told
again until it has ended.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

AGAIN_SECONDS = 1.0


async def together(works: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    """Until one of them ends or fails, or all are cancelled; then none is left. Failures come as a group."""
    tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await ended(tasks)
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    if errors:
        raise BaseExceptionGroup("tasks that belong together failed", errors)


async def finished(*tasks: asyncio.Task[Any]) -> None:
    """Until they have ended by themselves, however often we are told to stop; that is passed on afterwards."""
    cancelled = False
    while living := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(living)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    """None lives on, however often they must be told; being cancelled meanwhile hurries it, and is passed on."""
    cancelled, tasks = False, list(tasks)
    while living := [task for task in tasks if not task.done()]:
        for task in living:
            task.cancel()
        try:
            await asyncio.wait(living, timeout=AGAIN_SECONDS)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
