"""Asking the archive store, and knowing when it is out.

While it is out nobody but a probe asks it, once in a while, not once per workspace: whoever needs it is told at once
that it is out. It is out only when it is silent about something that is not there, too: one archive that cannot be read
is that workspace's trouble alone.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog

from codehub.coordinator.archive_losses import ArchiveLosses
from codehub.drivers.base import Archives
from codehub.errors import CodeHubError, DriverError
from codehub.model.names import archive_key
from codehub.model.needs import Depth, Need
from codehub.model.observation import ArchiveSeen, JobSeen, JobState
from codehub.model.tick import NEEDS_STORE
from codehub.model.workspace import ArchiveKey, ErrorReason, OpId, Workspace, WorkspaceId

log = structlog.get_logger(__name__)

LOOK, VERIFY = "look", "verify"
LANES = {("store", LOOK): 16, ("store", VERIFY): 64}  # few of the last read at once
NOBODY = WorkspaceId(UUID(int=0))
_NOBODYS = archive_key(NOBODY, OpId(UUID(int=0)))
SILENT = frozenset({ArchiveSeen.UNREACHABLE, ArchiveSeen.TIMEOUT})
_PROBE_SECONDS = 1.0
_READ_AT_ONCE = 4  # archives; whoever waits for a turn holds up no other look
_LONGEST_PROBE_SECONDS = 15.0
_REFUSAL_SECONDS = 3600.0  # longer than any pause between two attempts; who was not refused since is gone


@dataclass(frozen=True, slots=True)
class _Refusal:
    """An outage that one workspace met."""

    message: str
    at: float


class StoreWatch:
    """The archive store as the controller asks it."""

    def __init__(self, archives: Archives, losses: ArchiveLosses) -> None:
        self._archives = archives
        self.losses = losses
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)
        self._probe_at = 0.0
        self._pause = _PROBE_SECONDS
        self._refusals: dict[WorkspaceId, _Refusal] = {}
        self._is_silent = False

    @property
    def is_out(self) -> bool:
        """Nobody asks it for an archive: it is silent, or not the store that it was."""
        return self._is_silent or self.losses.is_mass

    @property
    def outage(self) -> str | None:
        """Why it is of no use now, for the operator: it is silent, or it answers and takes or gives no archive."""
        if self._is_silent:
            return "It does not answer."
        if self.losses.is_mass:
            return self.losses.outage
        if not self._refusals:
            return None
        last = max(self._refusals.values(), key=lambda it: it.at)
        return f"{last.message} Workspaces that wait for it: {len(self._refusals)}."

    def refused(self, workspace_id: WorkspaceId, message: str) -> None:
        """Something that needed it met an outage of it: a full disk, a quota, refused credentials."""
        now = asyncio.get_running_loop().time()
        self._refusals = {who: it for who, it in self._refusals.items() if it.at > now - _REFUSAL_SECONDS}
        if not self._refusals:
            log.error("the archive store is of no use now; what needs it waits", cause=message)
        self._refusals[workspace_id] = _Refusal(message, now)

    def served(self, workspace_id: WorkspaceId) -> None:
        """It got what it needed, or needs nothing any more."""
        if self._refusals.pop(workspace_id, None) is not None and not self._refusals:
            log.info("the archive store is of use again")

    def note_job(self, workspace: Workspace, job: JobSeen | None) -> None:
        """Learn from a job how the store is. One that runs tells nothing yet: a full store shows at the end."""
        if workspace.status.operation not in NEEDS_STORE or (job is not None and job.state is JobState.SUCCEEDED):
            self.served(workspace.id)
        elif job is not None and job.state is JobState.FAILED and job.error is ErrorReason.UNREACHABLE:
            self.refused(workspace.id, job.message)

    def is_probe_due(self) -> bool:
        """Whether it is out and was not asked for a while, or whether archives are there was not looked at for long."""
        silent = self._is_silent and asyncio.get_running_loop().time() >= self._probe_at
        return silent or (not self._is_silent and self.losses.is_check_due)

    async def probe(self) -> frozenset[WorkspaceId]:
        """Ask for something that is not there: any answer will do. Then, whether archives are there.

        Whose archives an administrator has just called lost: they are to be looked at.
        """
        if self._is_silent:
            self._probe_at = asyncio.get_running_loop().time() + self._pause
            self._pause = min(self._pause * 2, _LONGEST_PROBE_SECONDS)
            self._note(await self._look(_NOBODYS))
        if self._is_silent:
            return frozenset()
        try:
            return await self.losses.check()
        except CodeHubError as error:  # the database, or the store's listing: the next check will tell
            log.warning("whether archives are missing could not be looked at", cause=str(error))
            return frozenset()

    async def ask(
        self, workspace: Workspace, need: Need, moved: Callable[[int], None]
    ) -> Mapping[ArchiveKey, ArchiveSeen]:
        """Look at what is needed, no more closely than that; `moved` is told how far an archive was read back."""
        answers: dict[ArchiveKey, ArchiveSeen] = {}
        for key, depth in wanted(workspace, need).items():
            answers[key] = await self._look(key)
            if key == workspace.status.archive_key:
                answers[key] = await self._judged(workspace, key, answers[key])
            if depth is Depth.VERIFY and answers[key] is ArchiveSeen.LISTED:
                async with self._reading:
                    answers[key] = await self._verify(key, moved)
            self._note(await self._look(_NOBODYS) if answers[key] in SILENT else answers[key])
        return answers

    async def _judged(self, workspace: Workspace, key: ArchiveKey, seen: ArchiveSeen) -> ArchiveSeen:
        """That one is missing is believed when others are there."""
        if seen is not ArchiveSeen.MISSING:
            if seen not in SILENT:
                self.losses.is_back(workspace.id)
            return seen
        try:
            return await self.losses.judged(workspace.id, key, deleted=workspace.wish.deleted_at is not None)
        except CodeHubError as error:
            log.warning("whether more archives are missing could not be looked at", cause=str(error))
            return ArchiveSeen.UNREACHABLE

    async def _look(self, key: ArchiveKey) -> ArchiveSeen:
        try:
            return await self._archives.look(key)
        except DriverError as error:  # an answer that nobody understands is none
            log.warning("the archive store gave no answer that can be used", archive=key, cause=str(error))
            return ArchiveSeen.UNREACHABLE

    async def _verify(self, key: ArchiveKey, moved: Callable[[int], None]) -> ArchiveSeen:
        try:
            return await self._archives.verify(key, moved)
        except DriverError as error:
            log.warning("an archive could not be read back", archive=key, cause=str(error))
            return ArchiveSeen.UNREACHABLE

    def _note(self, seen: ArchiveSeen) -> None:
        out = seen in SILENT
        if out and not self._is_silent:
            log.error("the archive store does not answer; what needs it waits", seen=seen.name)
        if not out and self._is_silent:
            log.info("the archive store answers again")
        if not out or not self._is_silent:
            self._probe_at, self._pause = asyncio.get_running_loop().time() + _PROBE_SECONDS, _PROBE_SECONDS * 2
        self._is_silent = out


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
