"""Running until stopped: Ctrl-C and SIGTERM end the work in order, at any moment of it.

SIGTERM may be told to others first (web/draining.py); a second one, and Ctrl-C, do not wait for that.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import uvloop

from codehub.cli import memory, open_files, terminal
from codehub.config import TracingConfig
from codehub.tracing.otlp import exporting
from codehub.web.draining import Draining


def run(
    work: Callable[[], Coroutine[None, None, None]], tracing: TracingConfig, draining: Draining | None = None
) -> None:
    """Run until the work ends or is stopped; raises what it raises. It is traced if the settings say so.

    Raises StartError where too few files may be open.
    """
    open_files.raise_limit()

    async def traced() -> None:
        async with exporting(tracing):
            await work()

    memory.keep_flat()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signalled(traced, draining or Draining()))


async def _until_signalled(work: Callable[[], Coroutine[None, None, None]], draining: Draining) -> None:
    task = asyncio.create_task(work())
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()
            say("Stopping …")

    def drain() -> None:
        if draining.begun or not draining.delay:
            stop()
        else:
            say(f"Stopping in {draining.delay:g} s …")
            loop.call_later(draining.delay, stop)
        draining.begun = True

    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGTERM, drain)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise
    say("Stopped.")


def say(line: str) -> None:
    """Progress is for the person at the terminal; it is not a log. When nobody reads it any more, work goes on."""
    try:
        sys.stdout.write(f"{terminal.shown(line)}\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        # Python would try once more at its end, and end with 120.
        with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
