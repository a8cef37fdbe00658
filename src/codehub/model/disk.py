"""The reserve of a disk that workspaces share with CodeHub's own database: what happens when it is touched.

Nothing is started, so nothing more is written by what does not run yet. Whatever stands by is archived, which frees its
home. Of what runs, the one that grew the most since the last look is stopped; the next look decides anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from codehub.model.ttl import Transition
from codehub.model.workspace import Desired, Operation, Phase, Workspace, WorkspaceId

RESERVE_PERCENT, MAX_RESERVE_BYTES = 5, 2 << 30  # of the disk, and at most so much
NOTABLE_GROWTH_BYTES = 1 << 20
_REASON = "the disk is almost full"


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Of the file system that homes are on."""

    total: int
    free: int  # for whoever is not root

    def reserve(self, configured: int | None) -> int:
        """How much is kept free. None: the usual share; 0: nothing is."""
        if configured is not None:
            return configured
        return min(self.total * RESERVE_PERCENT // 100, MAX_RESERVE_BYTES)

    def shortage(self, configured: int | None) -> str | None:
        """One sentence for people while the reserve is touched."""
        reserve = self.reserve(configured)
        if self.free >= reserve:
            return None
        free, kept = self.free >> 20, reserve >> 20
        return f"The disk of the homes is almost full: {free} MiB are free, {kept} MiB are kept free."


def relief(
    workspaces: Sequence[Workspace], growth: Mapping[WorkspaceId, int], now: datetime
) -> Sequence[tuple[Workspace, Transition]]:
    """What to ask for while the reserve is touched. `growth`: bytes that homes grew by since the last look."""
    settled = [each for each in workspaces if _is_settled(each)]
    stopped = [each for each in settled if each.status.phase is Phase.STANDBY]
    grown = [each for each in settled if each.status.phase is Phase.RUNNING and growth.get(each.id, 0) > 0]
    largest = max(grown, key=lambda each: (growth[each.id], str(each.id)), default=None)
    archived = [(each, Transition(Desired.ARCHIVED, now, _REASON)) for each in stopped]
    if largest is None or growth[largest.id] < NOTABLE_GROWTH_BYTES:
        return archived
    return [*archived, (largest, Transition(Desired.STANDBY, now, f"{_REASON}, and its home grew the most"))]


def _is_settled(workspace: Workspace) -> bool:
    wish, status = workspace.wish, workspace.status
    return (
        wish.deleted_at is None
        and status.operation is Operation.NONE
        and status.phase in (Phase.RUNNING, Phase.STANDBY)
        and wish.desired_state.value == status.phase.value
    )
