"""The disk that homes are on: how close it is to its reserve, and who takes it.

Each home is measured with a limit of time of its own: one of millions of files does not hide the others. What a
workspace holds open without a name counts for it too (unnamed_files.py), since no look at its home shows that.
"""

import os
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from codehub.drivers.base import DiskPressure
from codehub.drivers.process.homes import Homes
from codehub.drivers.process.looks import looks
from codehub.drivers.process.notes import Notes
from codehub.drivers.process.reserve import Reserve
from codehub.drivers.process.threads import Threads
from codehub.drivers.process.unnamed_files import Unnamed, unnamed_files
from codehub.drivers.process.usage import owned
from codehub.model.disk import Scarce
from codehub.model.workspace import WorkspaceId

_HOME_SECONDS = 15.0  # a home of a hundred thousand files takes a second
_ALL_SECONDS = 60.0
_AT_ONCE = 4
_NICENESS = 19  # its turns at the disk go by this, too
_NOT_LOOKED_AT = -1
_COMMANDS = {Scarce.BYTES: ("du", "-sx", "--block-size=1"), Scarce.FILES: ("du", "-sx", "--inodes")}


class Disk:
    """Implements drivers.base.Disk."""

    def __init__(self, reserve: Reserve, homes: Homes, notes: Notes, threads: Threads) -> None:
        self._reserve = reserve
        self._homes = homes
        self._notes = notes
        self._run = threads.run
        self.home_seconds = _HOME_SECONDS

    async def pressure(self) -> DiskPressure:
        return await self._run(self._pressure)

    async def home_sizes(
        self, ids: Collection[WorkspaceId], scarce: Scarce, *, gently: bool = False
    ) -> Mapping[WorkspaceId, int | None]:
        return await self._run(self._measure, ids, scarce, gently=gently)

    def _pressure(self) -> DiskPressure:
        space, least = self._reserve.space(), self._reserve.least
        shortage = space.shortage(least)
        if shortage is not None:
            return DiskPressure(shortage.scarce, shortage.message)
        return DiskPressure(space.nearly_scarce(least))

    def _measure(
        self, ids: Collection[WorkspaceId], scarce: Scarce, *, gently: bool
    ) -> Mapping[WorkspaceId, int | None]:
        paths = {each: home.path for each in ids if (home := self._homes.find(each)) is not None}
        if not paths:
            return {}
        until = time.monotonic() + _ALL_SECONDS
        unnamed = self._unnamed(paths)
        niceness = _NICENESS if gently else None
        with ThreadPoolExecutor(1 if gently else _AT_ONCE, thread_name_prefix="du") as pool:
            named = pool.map(lambda path: self._taken(path, _COMMANDS[scarce], until, niceness), paths.values())
            found = dict(zip(paths, named, strict=True))
        return {each: _sum(size, unnamed.get(each), scarce) for each, size in found.items() if size != _NOT_LOOKED_AT}

    def _unnamed(self, paths: Mapping[WorkspaceId, Path]) -> Mapping[WorkspaceId, Unnamed]:
        device = next(iter(paths.values())).stat().st_dev
        members: dict[WorkspaceId, list[int]] = {each: [] for each in paths}
        for proc, workspace_id in owned([note for note in self._notes.all() if note.is_alive()], looks.fresh()):
            if workspace_id in members:
                members[workspace_id].append(proc.pid)
        return {each: unnamed_files(pids, device) for each, pids in members.items()}

    def _taken(self, path: Path, command: Sequence[str], until: float, niceness: int | None) -> int | None:
        seconds = min(self.home_seconds, until - time.monotonic())
        if seconds < self.home_seconds / 2:
            return _NOT_LOOKED_AT
        with _started([*command, "--", str(path)]) as process:
            if niceness is not None:
                os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None
        size = said.partition("\t")[0]
        return int(size) if size.isdigit() else _NOT_LOOKED_AT


@contextmanager
def _started(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _sum(named: int | None, unnamed: Unnamed | None, scarce: Scarce) -> int | None:
    if named is None or unnamed is None or not unnamed.is_whole:
        return None
    return named + (unnamed.bytes if scarce is Scarce.BYTES else unnamed.files)
