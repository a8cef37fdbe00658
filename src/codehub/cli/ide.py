"""`codehub ide`: which browser IDEs there are for workspaces that are local processes, and installing them.

Works beside a running CodeHub, which offers what is installed from then on.
"""

import asyncio
import threading
import time
from pathlib import Path

import typer

from codehub.cli.exits import CommandError, Exit
from codehub.cli.startup import Step
from codehub.config import Settings
from codehub.drivers.ide import IDES
from codehub.drivers.images import for_processes
from codehub.drivers.load import ide_folder
from codehub.drivers.process.install import RECIPES, install
from codehub.drivers.process.programs import READY, is_complete, is_installed
from codehub.embedded.datadir import OTHER_FOLDER, DataDir, default_data_dir
from codehub.errors import StartError
from codehub.model.workspace import InstanceBackend

FIRST = "jupyterlab"  # seconds to install; the others take minutes
FIRST_NAME = IDES[FIRST].title.partition(":")[0]
FIRST_TITLE = "JupyterLab (first start, about 250 MB)"
# What uv says when a part of its work is done: what comes next, and how far that is.
_PARTS = (("Resolved ", "downloading", 0.1), ("Prepared ", "installing", 0.6), ("Installed ", "compiling", 0.7))


def install_one(settings: Settings, name: str) -> None:
    """Say what happens; raises StartError with what to do when it does not work."""
    if name not in RECIPES:
        known = f"Choose one of: {', '.join(RECIPES)}."
        raise CommandError(f"There is no IDE called {name!r}.", known, exit_code=Exit.USAGE)
    ides = ide_folder(_data_dir(settings))
    if is_complete(name, ides):
        typer.echo(f"{name} is installed already.")
        return
    started = time.monotonic()
    install(name, ides, typer.echo)
    typer.echo(f"{name} is installed ({time.monotonic() - started:.0f} s).")


def is_first_needed(settings: Settings, data_dir: Path) -> bool:
    """Whether the settings offer the first IDE and it is not there yet."""
    if InstanceBackend.PROCESS not in settings.backends.enabled or is_complete(FIRST, ide_folder(data_dir)):
        return False
    return FIRST in for_processes(settings.backends.image_of).ides


def is_any_usable(settings: Settings, data_dir: Path) -> bool:
    """Whether workspaces can be used without the first IDE: with another one, or on another backend."""
    if set(settings.backends.enabled) != {InstanceBackend.PROCESS}:
        return True
    offered = for_processes(settings.backends.image_of).ides
    return any(is_installed(each, ide_folder(data_dir)) for each in offered.values())


async def install_first(data_dir: Path, step: Step) -> None:
    """For a first start: one IDE. Raises StartError."""
    stop = threading.Event()

    def progress(line: str) -> None:
        for sign, text, done in _PARTS:
            if line.startswith(sign):
                step.detail(text, done)

    work = asyncio.create_task(asyncio.to_thread(install, FIRST, ide_folder(data_dir), progress, stop))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(work, return_exceptions=True)
        raise


def states_of(settings: Settings) -> dict[str, str]:
    """Each IDE there is, and whether it can be used."""
    ides = ide_folder(_path(settings))
    return {name: _state(name, ides) for name in RECIPES}


def listing(settings: Settings) -> str:
    """One line for each."""
    states = states_of(settings)
    names, widest = max(map(len, states)), max(map(len, states.values()))
    return "".join(f"{name:<{names}}  {state:<{widest}}  {IDES[name].title}\n" for name, state in states.items())


def _state(name: str, ides: Path) -> str:
    if (ides / name / READY).exists():
        return "installed"
    return "found on this machine" if is_installed(IDES[name], ides) else "not installed"


def _data_dir(settings: Settings) -> Path:
    """Made if need be, so that it is known to be ours; one that another process is using is left alone."""
    path = _path(settings)
    if not (path / "lock").exists():
        DataDir.open(path).close()
    return path.resolve()


def _path(settings: Settings) -> Path:
    given = settings.server.data_dir or default_data_dir()
    try:
        return given.expanduser()
    except RuntimeError:
        raise StartError(f"{given} names the home of a user who does not exist.", OTHER_FOLDER) from None
