"""Asking the archive store, and knowing when it is out.

While it is out nobody but a probe asks it, once in a while, not once per workspace: whoever needs it is told at once
that it is out. It is out only when it is silent about something that is not there, too: one archive that cannot be read
is that workspace's trouble alone.
"""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import structlog

from codehub.drivers.base import Archives
from codehub.errors import DriverError
from codehub.model.names import archive_key
from codehub.model.needs import Depth, Need
from codehub.model.observation import ArchiveSeen
from codehub.model.workspace import ArchiveKey, OpId, Workspace, WorkspaceId

log = structlog.get_logger(__name__)

LOOK, VERIFY = "look", "verify"  # lanes
NOBODY = WorkspaceId(UUID(int=0))
_NOBODYS = archive_key(NOBODY, OpId(UUID(int=0)))
SILENT = frozenset({ArchiveSeen.UNREACHABLE, ArchiveSeen.TIMEOUT})
_PROBE_SECONDS = 1.0
_READ_AT_ONCE = 4  # archives; whoever waits for a turn holds up no other look
_LONGEST_PROBE_SECONDS = 15.0


class StoreWatch:
    """The archive store as the controller asks it."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)
        self._probe_at = 0.0
        self._pause = _PROBE_SECONDS
        self.is_out = False

    def is_probe_due(self) -> bool:
        """Whether it is out and was not asked for a while."""
        return self.is_out and asyncio.get_running_loop().time() >= self._probe_at

    async def probe(self) -> None:
        """Ask for something that is not there: any answer will do."""
        self._probe_at = asyncio.get_running_loop().time() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PROBE_SECONDS)
        self._note(await self._look(_NOBODYS))

    async def ask(self, workspace: Workspace, need: Need) -> Mapping[ArchiveKey, ArchiveSeen]:
        """Look at what is needed, no more closely than that."""
        answers: dict[ArchiveKey, ArchiveSeen] = {}
        for key, depth in wanted(workspace, need).items():
            answers[key] = await self._look(key)
            if depth is Depth.VERIFY and answers[key] is ArchiveSeen.LISTED:
                async with self._reading:
                    answers[key] = await self._verify(key)
            self._note(await self._look(_NOBODYS) if answers[key] in SILENT else answers[key])
        return answers

    async def _look(self, key: ArchiveKey) -> ArchiveSeen:
        try:
            return await self._archives.look(key)
        except DriverError as error:  # an answer that nobody understands is none
            log.warning("the archive store gave no answer that can be used", archive=key, cause=str(error))
            return ArchiveSeen.UNREACHABLE

    async def _verify(self, key: ArchiveKey) -> ArchiveSeen:
        try:
            return await self._archives.verify(key)
        except DriverError as error:
            log.warning("an archive could not be read back", archive=key, cause=str(error))
            return ArchiveSeen.UNREACHABLE

    def _note(self, seen: ArchiveSeen) -> None:
        out = seen in SILENT
        if out and not self.is_out:
            log.error("the archive store does not answer; what needs it waits", seen=seen.name)
        if not out and self.is_out:
            log.info("the archive store answers again")
        if not out or not self.is_out:
            self._probe_at, self._pause = asyncio.get_running_loop().time() + _PROBE_SECONDS, _PROBE_SECONDS * 2
        self.is_out = out


def lane_of(need: Need) -> str:
    return VERIFY if Depth.VERIFY in (need.archive, need.op_archive) else LOOK


def wanted(workspace: Workspace, need: Need) -> Mapping[ArchiveKey, Depth]:
    """Each key once, as closely as anyone asks for it."""
    status = workspace.status
    keys: dict[ArchiveKey, Depth] = {}
    if need.archive is not None and status.archive_key is not None:
        keys[status.archive_key] = need.archive
    if need.op_archive is not None and status.op_id is not None:
        keys[archive_key(workspace.id, status.op_id)] = need.op_archive
    return keys
