"""Installs IDEs into a folder under the data directory, each in a folder of its own, complete or not at all.

JupyterLab comes by uv from a lock file with the hash of every package, as wheels alone, of which nothing is run;
code-server is built (install_code_server.py). An installation counts only once its marker is there; one that failed or
was interrupted leaves nothing that counts, and is begun again.
"""

import errno
import fcntl
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from codehub.drivers.ide import IDES
from codehub.drivers.process.install_code_server import install_code_server
from codehub.drivers.process.installer_environment import uv_files
from codehub.drivers.process.layout import remove_tree, write_durably
from codehub.drivers.process.programs import READY, is_complete
from codehub.drivers.process.running import Installer, Progress, no_room
from codehub.errors import StartError

LOCKED = Path(__file__).with_name("ide-jupyterlab.txt")

_POLL_SECONDS = 0.1
# Nobody is asked, in each new home, whether they want to hear the project's news.
_JUPYTERLAB_DEFAULTS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
_STEPS_OF_UV = ("Resolved ", "Prepared ", "Installed ", "Bytecode compiled ")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one IDE is installed, and the room that takes on the way."""

    steps: Callable[[Path, Installer], None]
    needs_bytes: int


def install(name: str, ides: Path, progress: Progress, stop: threading.Event | None = None) -> None:
    """Return when it can be used; raises StartError with what went wrong. Nothing to do if it is there."""
    if name == "test":
        return
    recipe = RECIPES.get(name)
    if recipe is None:
        raise StartError(f"There is no way to install {name!r} here.", f"Known are: {', '.join(RECIPES)}.")
    installer = Installer(progress, stop or threading.Event(), recipe.needs_bytes)
    folder = ides / name
    try:
        ides.mkdir(parents=True, exist_ok=True)
        ides.chmod(0o755)
        with ExitStack() as own, _alone(ides / f".{name}.lock", installer) as lock:
            home = own.enter_context(tempfile.TemporaryDirectory(prefix=f"codehub-{name}-"))
            installer = replace(installer, lock=lock, home=Path(home))
            if is_complete(name, ides):
                return
            if (folder / READY).exists():
                _add_pip(folder, installer)  # beside workspaces that run it
                _open_to_all(folder, installer)
                return
            remove_tree(folder)
            if shutil.disk_usage(ides).free < recipe.needs_bytes:
                raise no_room(recipe.needs_bytes)
            folder.mkdir()
            folder.chmod(0o755)  # whatever the umask says: workspaces have user ids of their own
            try:
                recipe.steps(folder, installer)
                _open_to_all(folder, installer)
                write_durably(folder / READY, f"{name}\n")
            except BaseException:
                remove_tree(folder)
                raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room(recipe.needs_bytes) from error
        raise StartError(f"{folder} cannot be written: {error.strerror}.") from error


def _jupyterlab(folder: Path, installer: Installer) -> None:
    python = str(folder / "bin/python")
    installer.progress(f"Installing {IDES['jupyterlab'].title} (about 250 MB) …")
    _uv(installer, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    words = ("--no-build", "--require-hashes", "--compile-bytecode", str(LOCKED))
    _uv(installer, "pip", "sync", "--python", python, *words)
    (folder / ".lock").unlink(missing_ok=True)  # uv leaves it writable for everybody, and every workspace sees it
    settings_folder = folder / "share/jupyter/lab/settings"
    settings_folder.mkdir(parents=True, exist_ok=True)
    settings_folder.chmod(0o755)
    write_durably(settings_folder / "overrides.json", json.dumps(_JUPYTERLAB_DEFAULTS), 0o644)


def _add_pip(folder: Path, installer: Installer) -> None:
    """Nothing that is there is changed: workspaces may be running it."""
    words = ("--no-build", "--constraint", str(LOCKED), "--no-deps", "--compile-bytecode", "pip")
    _uv(installer, "pip", "install", "--python", str(folder / "bin/python"), *words)
    (folder / ".lock").unlink(missing_ok=True)


def _open_to_all(folder: Path, installer: Installer) -> None:
    """uv takes over the modes of its cache, which another command may have filled with a strict umask."""
    installer.run(["chmod", "-R", "go+rX", "--", str(folder)], lambda _: None, {})


def _uv(installer: Installer, *words: str) -> None:
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "true"}  # trust what the machine trusts
    told = {**uv_files(installer.given), **settings}
    installer.run([_find_uv(), *words], _step, told, fetches=True)


def _step(line: str) -> str | None:
    return line if line.startswith(_STEPS_OF_UV) else None


def _find_uv() -> str:
    try:
        from uv import find_uv_bin  # noqa: PLC0415 - the container image, whose workspaces are containers, has none

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        raise StartError("The program uv is missing.", "Install CodeHub again, with all its dependencies.") from None


@contextmanager
def _alone(path: Path, installer: Installer) -> Iterator[int]:
    """Nobody else installs the same meanwhile, nor does what a killed process of ours has left running."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    told = False
    try:
        while not _is_taken(descriptor):
            if not told:
                installer.progress("Waiting for another process that installs the same …")
                told = True
            if installer.stop.is_set():
                raise StartError("The installation was stopped.")
            time.sleep(_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


RECIPES = {"jupyterlab": Recipe(_jupyterlab, 400 << 20), "code-server": Recipe(install_code_server, 1500 << 20)}
