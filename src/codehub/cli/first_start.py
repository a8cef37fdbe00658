"""What a first start installs, beside the start of the servers: the sandbox of workspaces and a first IDE.

Without a sandbox there is a warning, and it is tried again until there are homes. Without an IDE there is a warning,
too; where there is no other one, and nobody has a workspace yet, nothing would work, and the start ends. One that takes
very long is installed beside everything else.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from codehub.cli import ide
from codehub.cli.running import say
from codehub.cli.startup import Startup
from codehub.config import Settings
from codehub.drivers import places
from codehub.drivers.load import has_homes
from codehub.drivers.process.install_sandbox import install_sandbox, package_manager
from codehub.errors import StartError
from codehub.model.workspace import InstanceBackend

log = structlog.get_logger(__name__)

IDE_SECONDS = 120.0  # then it goes on beside everything else


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The installations under way; each is done at once where there is nothing to install."""

    sandbox: "asyncio.Task[None]"
    ide: "asyncio.Task[None]"
    late: asyncio.Event  # nobody waits for the IDE any more

    async def wait_for_ide(self) -> None:
        """Return when it is there, or has failed, or takes too long. Raises StartError where nothing works without."""
        done, _ = await asyncio.wait({self.ide}, timeout=IDE_SECONDS)
        for task in done:
            task.result()
        if not done:
            self.late.set()
            say("This takes long; CodeHub starts meanwhile.")


@contextlib.asynccontextmanager
async def installing(settings: Settings, data_dir: Path, startup: Startup) -> AsyncIterator[FirstStart]:
    """Both from now on. At the end nothing of it is under way."""
    late = asyncio.Event()
    first = FirstStart(
        asyncio.create_task(_install_sandbox(settings, data_dir), name="sandbox"),
        asyncio.create_task(_install_ide(settings, data_dir, startup, late), name="ide"),
        late,
    )
    try:
        yield first
    finally:
        for task in (first.sandbox, first.ide):
            task.cancel()
        await asyncio.gather(first.sandbox, first.ide, return_exceptions=True)


async def _install_sandbox(settings: Settings, data_dir: Path) -> None:
    """Until somebody has a workspace: whoever goes without is told so at every start, with what to do."""
    wanted = InstanceBackend.PROCESS in settings.backends.enabled and settings.process.sandbox != "off"
    if not wanted or not settings.process.install_sandbox or has_homes(data_dir):
        return
    is_again = places.has_workspaces(data_dir)
    stop, begun = threading.Event(), threading.Event()

    def progress(line: str) -> None:
        begun.set()
        say(line)

    work = asyncio.create_task(asyncio.to_thread(install_sandbox, progress, stop, is_again=is_again))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        if begun.is_set() and not work.done():
            say(f"Waiting for {package_manager()} to finish …")
        await asyncio.wait({work})  # a package manager that was begun is left to finish
        raise


async def _install_ide(settings: Settings, data_dir: Path, startup: Startup, late: asyncio.Event) -> None:
    if not ide.is_first_needed(settings, data_dir):
        return
    try:
        with startup.step(ide.FIRST_TITLE) as step:
            await ide.install_first(data_dir, step)
    except StartError as error:
        log.warning("an IDE was not installed", ide=ide.FIRST, why=str(error))
        what = f"{ide.FIRST_NAME} was not installed"
        if not (late.is_set() or ide.is_any_usable(settings, data_dir) or has_homes(data_dir)):
            raise StartError(
                f"{what}, and without an IDE no workspace can be used. {error.message}", error.hint
            ) from error
        startup.warn(f"{what}: {error} Then run: codehub ide install {ide.FIRST}")
