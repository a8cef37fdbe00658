"""`codehub ide`: which browser IDEs there are for workspaces that are local processes, and installing them.

Works beside a running CodeHub, which offers what is installed from then on.
"""

import time
from pathlib import Path

import typer

from codehub.config import Settings
from codehub.drivers.ide import IDES
from codehub.drivers.load import ide_folder
from codehub.drivers.process.install import RECIPES, install
from codehub.drivers.process.programs import READY, is_installed
from codehub.embedded.datadir import DataDir, default_data_dir
from codehub.errors import StartError


def install_one(settings: Settings, name: str) -> None:
    """Say what happens; raises StartError with what to do when it does not work."""
    if name not in RECIPES:
        raise StartError(f"There is no IDE called {name!r}.", f"Choose one of: {', '.join(RECIPES)}.")
    ides = ide_folder(_data_dir(settings))
    if (ides / name / READY).exists():
        typer.echo(f"{name} is installed already.")
        return
    started = time.monotonic()
    install(name, ides, typer.echo)
    typer.echo(f"{name} is installed ({time.monotonic() - started:.0f} s).")


def listing(settings: Settings) -> str:
    """One line for each."""
    ides = ide_folder(settings.server.data_dir or default_data_dir())
    states = {name: _state(name, ides) for name in RECIPES}
    names, widest = max(map(len, states)), max(map(len, states.values()))
    return "".join(f"{name:<{names}}  {state:<{widest}}  {IDES[name].title}\n" for name, state in states.items())


def _state(name: str, ides: Path) -> str:
    if (ides / name / READY).exists():
        return "installed"
    return "found on this machine" if is_installed(IDES[name], ides) else "not installed"


def _data_dir(settings: Settings) -> Path:
    """Made if need be, so that it is known to be ours; one that another process is using is left alone."""
    path = (settings.server.data_dir or default_data_dir()).expanduser()
    if not (path / "lock").exists():
        DataDir.open(path).close()
    return path.resolve()
