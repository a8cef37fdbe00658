"""Installs bubblewrap where it is missing and this machine lets us: as root, or by sudo without a password.

A package manager that was begun is waited for, whoever stops us: killed, it may leave the system half installed. So
only apt's downloads have a limit of time, and what it installs then is there already.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from codehub.drivers.process.installer_environment import fetching_environment
from codehub.drivers.process.running import Progress

BWRAP = "bwrap"
_PACKAGE = "bubblewrap"
_SECONDS = 120
_AGAIN_SECONDS = 15
_SUDO_SECONDS = 5
_MANAGERS = ("apt-get", "dnf", "apk")


def install_sandbox(progress: Progress, stop: threading.Event | None = None, *, is_again: bool = False) -> bool:
    """Whether there is one now. Says in one line that it installs it; what fails is a reason to go without.

    After a stop nothing more is begun. Where it is tried again, no network must not hold up every start.
    """
    if shutil.which(BWRAP) is not None:
        return True
    manager = package_manager()
    rights = _rights()
    if manager is None or rights is None:
        return False
    progress(f"Installing {_PACKAGE}, the sandbox of workspaces ({manager}) …")
    for way in _ways(manager, _AGAIN_SECONDS if is_again else _SECONDS):
        if all(not (stop and stop.is_set()) and _run([*rights, *command]) for command in way):
            break
    return shutil.which(BWRAP) is not None


def package_manager() -> str | None:
    """The one of this machine that we know."""
    return next(filter(shutil.which, _MANAGERS), None)


def apt_ways(packages: Sequence[str], seconds: int) -> Sequence[Sequence[Sequence[str]]]:
    """What to try with apt-get, one after the other until one works: its lists may be old, or not there."""
    wait = ("-o", "DPkg::Lock::Timeout=30")
    network = ("-o", "Acquire::http::Timeout=15", "-o", "Acquire::https::Timeout=15", "-o", "Acquire::Retries=1")
    install = ("install", "-y", "--no-install-recommends", "--no-remove", *wait)
    fetch = (*_limit(seconds), "apt-get", *install, *network, "--download-only", *packages)
    unpack = ("apt-get", *install, "--no-download", *packages)
    update = (*_limit(seconds), "apt-get", "update", *wait, *network)
    return (fetch, unpack), (update, fetch, unpack)


def _ways(manager: str, seconds: int) -> Sequence[Sequence[Sequence[str]]]:
    if manager == "apt-get":
        return apt_ways((_PACKAGE,), seconds)
    # They install in the same breath, which a short limit might end in the middle: dnf gives up by itself.
    words = ("add",) if manager == "apk" else ("install", "-y", "--setopt=timeout=5", "--setopt=retries=1")
    return (((*_limit(_SECONDS), manager, *words, _PACKAGE),),)


def _limit(seconds: int) -> Sequence[str]:
    """By a program, because what sudo runs is root's. It is asked to end, never killed."""
    return ("timeout", str(seconds))


def _rights() -> Sequence[str] | None:
    """What to put before a command that only root may run; None if nothing helps."""
    if os.geteuid() == 0:
        return ()
    sudo = ("sudo", "-n")
    return sudo if shutil.which("sudo") and _run([*_limit(_SUDO_SECONDS), *sudo, "true"]) else None


def _run(command: Sequence[str]) -> bool:
    environment = {**fetching_environment(os.environ, Path("/")), "DEBIAN_FRONTEND": "noninteractive"}
    try:
        # In a session of its own: Ctrl-C is not for it. Without pipes: when we are killed it goes on to its end.
        done = subprocess.run(  # noqa: S603 - ours
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            env=environment, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0
