"""The reserve of a disk that workspaces share with CodeHub's own database: what happens when it is touched.

Nothing is started, so nothing more is written by what does not run yet. Whatever stands by is archived, which frees its
home. Of what runs one is stopped, and the next look decides anew: a home that cannot be measured, as whoever fills the
disk could make his own so; else the one that grew the most; and when that has not helped for a while, as nobody grows
any more, the largest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from codehub.model.ttl import Transition
from codehub.model.workspace import Desired, Operation, Phase, Workspace, WorkspaceId

RESERVE_PERCENT, MAX_RESERVE_BYTES, MAX_RESERVE_FILES = 5, 2 << 30, 1 << 16  # of the disk, and at most so much
NEAR_PERCENT = 125  # of the reserve: from there on homes are measured, so that who grows is known when it is touched
PATIENCE = timedelta(minutes=1)
_REASON = "the disk is almost full"


class Scarce(Enum):
    """What a disk has too little of; a file system may have room and still take no further file."""

    BYTES = "bytes"
    FILES = "files"


NOTABLE = {Scarce.BYTES: 1 << 20, Scarce.FILES: 100}


class _StatVfs(Protocol):
    @property
    def f_frsize(self) -> int: ...
    @property
    def f_blocks(self) -> int: ...
    @property
    def f_bavail(self) -> int: ...
    @property
    def f_files(self) -> int: ...
    @property
    def f_favail(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Shortage:
    """While the reserve is touched."""

    scarce: Scarce
    message: str  # one sentence for people


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Of the file system that homes are on."""

    total: int
    free: int  # for whoever is not root
    total_files: int = 0  # 0: it makes room for files as it needs
    free_files: int = 0

    @classmethod
    def of(cls, found: _StatVfs) -> "DiskSpace":
        return cls(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files, found.f_favail)

    def reserve(self, configured: int | None) -> int:
        """How many bytes are kept free. None: the usual share; 0: nothing is."""
        if configured is not None:
            return configured
        return min(self.total * RESERVE_PERCENT // 100, MAX_RESERVE_BYTES)

    def reserve_files(self, configured: int | None) -> int:
        return 0 if configured == 0 else min(self.total_files * RESERVE_PERCENT // 100, MAX_RESERVE_FILES)

    def shortage(self, configured: int | None) -> Shortage | None:
        reserve, files = self.reserve(configured), self.reserve_files(configured)
        if self.free < reserve:
            free, kept = self.free >> 20, reserve >> 20
            told = f"The disk of the homes is almost full: {free} MiB are free, {kept} MiB are kept free."
            return Shortage(Scarce.BYTES, told)
        if self.free_files < files:
            told = f"room for {self.free_files} files is left, room for {files} is kept free"
            return Shortage(Scarce.FILES, f"The disk of the homes takes almost no more files: {told}.")
        return None

    def nearly_scarce(self, configured: int | None) -> Scarce | None:
        """What there will soon be too little of."""
        if self.free * 100 < self.reserve(configured) * NEAR_PERCENT:
            return Scarce.BYTES
        if self.free_files * 100 < self.reserve_files(configured) * NEAR_PERCENT:
            return Scarce.FILES
        return None


@dataclass(frozen=True, slots=True)
class HomeUse:
    """Of what is scarce, how much a running workspace takes."""

    size: int
    growth: int  # since the reserve was touched, or somebody was stopped


def relief(
    workspaces: Sequence[Workspace],
    uses: Mapping[WorkspaceId, HomeUse | None],
    scarce: Scarce,
    now: datetime,
    *,
    is_lasting: bool,
) -> Sequence[tuple[Workspace, Transition]]:
    """What to ask for while the reserve is touched. `uses`: None for a home that could not be measured in time.

    `is_lasting`: for longer than PATIENCE since it was touched or somebody was stopped for being the largest.
    """
    settled = [each for each in workspaces if _is_settled(each)]
    asked = [
        (each, Transition(Desired.ARCHIVED, now, _REASON)) for each in settled if each.status.phase is Phase.STANDBY
    ]
    running = [each for each in settled if each.status.phase is Phase.RUNNING and each.id in uses]
    blamed = _blamed(running, uses, NOTABLE[scarce], is_lasting=is_lasting)
    if blamed is not None:
        each, why = blamed
        asked.append((each, Transition(Desired.STANDBY, now, f"{_REASON}, and its home {why}")))
    return asked


def _blamed(
    running: Sequence[Workspace], uses: Mapping[WorkspaceId, HomeUse | None], notable: int, *, is_lasting: bool
) -> tuple[Workspace, str] | None:
    """Who is stopped, and for what."""
    for each in sorted(running, key=lambda each: str(each.id)):
        if uses[each.id] is None:
            return each, "could not be measured in time"
    known = [(use, each) for each in running if (use := uses[each.id]) is not None]
    if not known:
        return None
    grown, fastest = max(known, key=lambda found: (found[0].growth, str(found[1].id)))
    used, largest = max(known, key=lambda found: (found[0].size, str(found[1].id)))
    if is_lasting and used.size >= notable:
        return largest, "is the largest"
    return (fastest, "grew the most") if grown.growth >= notable else None


def _is_settled(workspace: Workspace) -> bool:
    wish, status = workspace.wish, workspace.status
    return (
        wish.deleted_at is None
        and status.operation is Operation.NONE
        and status.phase in (Phase.RUNNING, Phase.STANDBY)
        and wish.desired_state.value == status.phase.value
    )
