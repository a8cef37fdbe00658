"""Hints that something may have changed: a process that ended, a record that came or went.

The kernel tells of ends (pidfd). Records are made by any process of ours, so their folders are looked at: a few cheap
calls every now and then, whatever the number of workspaces. Only after a change are the records themselves read, for a
few seconds, since a process is written down a moment after its record.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from codehub.drivers.process.layout import Layout
from codehub.errors import DriverError

_POLL_SECONDS = 0.5  # an outage of half a second is noticed
_SETTLING_SECONDS = 5.0


async def changes(
    layout: Layout,
    run: Callable[..., Awaitable[Any]],
    pids: Callable[[], list[int]],
    *,
    poll_seconds: float = _POLL_SECONDS,
    settling_seconds: float = _SETTLING_SECONDS,
) -> AsyncIterator[None]:
    """Yields once for any number of changes since the last time."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    watched: dict[int, int] = {}
    before: tuple[int, ...] = ()
    settled_at = loop.time() + settling_seconds

    def on_end(pid: int) -> None:
        forget(pid)
        ended.set()

    def forget(pid: int) -> None:
        descriptor = watched.pop(pid)
        loop.remove_reader(descriptor)
        os.close(descriptor)

    try:
        while True:
            if loop.time() < settled_at:
                with suppress(DriverError, OSError):
                    for pid in set(await run(pids)) - set(watched):
                        with suppress(ProcessLookupError):
                            watched[pid] = os.pidfd_open(pid)
                            loop.add_reader(watched[pid], on_end, pid)
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), poll_seconds)
            now = _times(layout)
            if now != before:
                settled_at = loop.time() + settling_seconds
            if ended.is_set() or now != before:
                ended.clear()
                before = now
                yield
    finally:
        for pid in list(watched):
            forget(pid)


def _times(layout: Layout) -> tuple[int, ...]:
    times = []
    for folder in (layout.instances, layout.jobs, layout.homes):
        try:
            times.append(folder.stat().st_mtime_ns)
        except OSError:
            times.append(0)
    return tuple(times)
