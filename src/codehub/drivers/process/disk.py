"""The disk that homes are on: how much is free, and whether that still allows to start something."""

import os
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from codehub.drivers.process.homes import Homes
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.threads import Threads
from codehub.errors import Unreachable
from codehub.model.disk import DiskSpace
from codehub.model.workspace import WorkspaceId

_MEASURE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept free there: `least` bytes, or the usual share."""

    layout: Layout
    least: int | None

    def check(self) -> None:
        """Before something is started that writes there. Unreachable, which is waited for and never counted."""
        shortage = self.shortage()
        if shortage is not None:
            raise Unreachable(f"{shortage} Nothing is started until there is room.", "Delete or archive workspaces.")

    def shortage(self) -> str | None:
        try:
            found = os.statvfs(self.layout.homes)
        except OSError as error:
            raise Unreachable(f"{self.layout.homes} cannot be looked at: {error.strerror}.") from error
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize).shortage(self.least)


class Disk:
    """Implements drivers.base.Disk."""

    def __init__(self, reserve: Reserve, homes: Homes, threads: Threads) -> None:
        self._reserve = reserve
        self._homes = homes
        self._run = threads.run

    async def shortage(self) -> str | None:
        return await self._run(self._reserve.shortage)

    async def home_sizes(self, ids: Collection[WorkspaceId]) -> Mapping[WorkspaceId, int]:
        return await self._run(self._measure, ids)

    def _measure(self, ids: Collection[WorkspaceId]) -> Mapping[WorkspaceId, int]:
        """As far as that is known within the time: `du` tells of one after the other."""
        homes = {str(home.path): each for each in ids if (home := self._homes.find(each)) is not None}
        if not homes:
            return {}
        command = ("du", "-sx", "--block-size=1", "--", *homes)
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=_MEASURE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                said, _ = process.communicate()
        found = {}
        for line in said.splitlines():
            size, _, path = line.partition("\t")
            with suppress(KeyError, ValueError):
                found[homes[path]] = int(size)
        return found
