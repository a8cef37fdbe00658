"""Limits on memory, processor time and processes by cgroup v2, where we may make groups; nothing where we may not.

Groups are `codehub-INSTALLATION/ws-ID` at the top of the mounted tree, not below our own group: a service manager that
stops CodeHub kills everything below that one, and people's work must go on. A group can also be killed at once.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codehub.drivers.base import Resources

_CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD_MICROSECONDS = 100_000
_TRIES = 5
_END_SECONDS = 0.5
_REMOVE_SECONDS = 1.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Cgroups:
    """A tree that we may make groups in, and what it can limit."""

    parent: Path
    controllers: frozenset[str]

    @classmethod
    def find(cls, installation: str, top: Path | None = None) -> "Cgroups | None":
        """None where there is no cgroup v2 or it is not ours to write."""
        top = top or _mounted()
        if top is None:
            return None
        parent = top / f"codehub-{installation}"
        try:
            parent.mkdir(exist_ok=True)
        except OSError:
            return None
        for folder in (top, parent):
            _enable(folder)
        controllers = frozenset(_words(parent / "cgroup.subtree_control")) & frozenset(_CONTROLLERS)
        with suppress(OSError):  # made again by the first instance; nothing is left behind on a machine that has none
            parent.rmdir()
        return cls(parent, controllers)

    def make(self, name: str, resources: Resources) -> Path:
        """The group with its limits; returns the file that a process joins it by."""
        group = self.parent / name
        for _ in range(_TRIES):  # another process may just be removing the parent, which was empty
            try:
                group.mkdir(exist_ok=True)
                break
            except FileNotFoundError:
                self.parent.mkdir(exist_ok=True)
                _enable(self.parent)
        wanted = limits(resources)
        if not all((group / file).exists() for file in wanted):  # somebody has just made the parent
            _enable(self.parent)
        for file, value in wanted.items():
            with suppress(FileNotFoundError):  # a controller that this machine does not have
                _write(group / file, value)
        return group / "cgroup.procs"

    def kill(self, name: str) -> None:
        """SIGKILL for everything in it (kernel 5.14 or newer), and a moment for it to end.

        Whoever then looks through all processes for what was not in it finds nothing that is just ending.
        """
        try:
            _write(self.parent / name / "cgroup.kill", "1")
        except OSError:
            return
        until = time.monotonic() + _END_SECONDS
        while self.members(name) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)

    def members(self, name: str) -> list[int]:
        return [int(word) for word in _words(self.parent / name / "cgroup.procs")]

    def remove(self, name: str) -> None:
        """What was in it has ended; the kernel takes a moment to see that. One that stays harms nobody."""
        until = time.monotonic() + _REMOVE_SECONDS
        while (self.parent / name).exists() and time.monotonic() < until:
            with suppress(OSError):
                (self.parent / name).rmdir()
                break
            time.sleep(_POLL_SECONDS)
        with suppress(OSError):
            self.parent.rmdir()  # that was the last one


def limits(resources: Resources) -> Mapping[str, str]:
    """What to write where."""
    values: dict[str, str] = {}
    if resources.memory_bytes is not None:
        values |= {"memory.max": str(resources.memory_bytes), "memory.swap.max": "0", "memory.oom.group": "0"}
    if resources.pids is not None:
        values["pids.max"] = str(resources.pids)
    if resources.cpus is not None:
        values["cpu.max"] = f"{round(resources.cpus * _PERIOD_MICROSECONDS)} {_PERIOD_MICROSECONDS}"
    return values


def _mounted() -> Path | None:
    if os.geteuid() != 0:
        return None
    for line in Path("/proc/self/mounts").read_text().splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return Path(words[1])
    return None


def _enable(folder: Path) -> None:
    for controller in set(_words(folder / "cgroup.controllers")) & set(_CONTROLLERS):
        with suppress(OSError):  # a group that has processes of its own cannot (but the very top one)
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _write(path: Path, value: str) -> None:
    """A file of the kernel's: one that is not there must not be made."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
