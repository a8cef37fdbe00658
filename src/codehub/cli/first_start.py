"""What a first start installs, beside the start of the servers: the sandbox of workspaces and a first IDE.

Neither ends the start: without a sandbox there is a warning, without an IDE too, and one that takes very long is
installed beside everything else.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from codehub.cli import ide
from codehub.cli.running import say
from codehub.cli.startup import Startup
from codehub.config import Settings
from codehub.drivers import places
from codehub.drivers.process.install_sandbox import install_sandbox, package_manager
from codehub.model.workspace import InstanceBackend

IDE_SECONDS = 120.0  # then it goes on beside everything else


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The installations under way; each is done at once where there is nothing to install."""

    sandbox: "asyncio.Task[None]"
    ide: "asyncio.Task[None]"

    async def wait_for_ide(self) -> None:
        """Return when it is there, or has failed, or takes too long."""
        done, _ = await asyncio.wait({self.ide}, timeout=IDE_SECONDS)
        for task in done:
            task.result()
        if not done:
            say("This takes long; CodeHub starts meanwhile.")


@contextlib.asynccontextmanager
async def installing(settings: Settings, data_dir: Path, startup: Startup) -> AsyncIterator[FirstStart]:
    """Both from now on. At the end nothing of it is under way."""
    first = FirstStart(
        asyncio.create_task(_install_sandbox(settings, data_dir), name="sandbox"),
        asyncio.create_task(_install_ide(settings, data_dir, startup), name="ide"),
    )
    try:
        yield first
    finally:
        for task in (first.sandbox, first.ide):
            task.cancel()
        await asyncio.gather(first.sandbox, first.ide, return_exceptions=True)


async def _install_sandbox(settings: Settings, data_dir: Path) -> None:
    """On a first start only: whoever goes without is told so at every start, with what to do."""
    wanted = InstanceBackend.PROCESS in settings.backends.enabled and settings.process.sandbox != "off"
    if not wanted or not settings.process.install_sandbox or places.has_workspaces(data_dir):
        return
    stop, begun = threading.Event(), threading.Event()

    def progress(line: str) -> None:
        begun.set()
        say(line)

    work = asyncio.create_task(asyncio.to_thread(install_sandbox, progress, stop))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        if begun.is_set() and not work.done():
            say(f"Waiting for {package_manager()} to finish …")
        await asyncio.wait({work})  # a package manager that was begun is left to finish
        raise


async def _install_ide(settings: Settings, data_dir: Path, startup: Startup) -> None:
    if ide.is_first_needed(settings, data_dir):
        with startup.step(ide.FIRST_TITLE) as step:
            await ide.install_first(data_dir, step, startup.warn)
