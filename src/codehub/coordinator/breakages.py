"""Looks and decisions that broke: each harms one workspace only, which rests ever longer before the next try."""

import asyncio
from dataclasses import dataclass, field

import structlog

from codehub.model.failure import backoff
from codehub.model.workspace import Workspace, WorkspaceId

log = structlog.get_logger(__name__)

_LONGEST_CAUSE = 300  # characters


class LookBroke(Exception):
    """A look at one workspace ended in a way that no driver may end it; its message is the cause."""


@dataclass(slots=True)
class _Broken:
    times: int
    not_before: float
    told: object  # the state and the cause that the log has already


@dataclass
class Breakages:
    """Who breaks at the moment, and how often it has happened to anybody."""

    total: int = 0
    _broken: dict[WorkspaceId, _Broken] = field(default_factory=dict)

    def is_resting(self, workspace_id: WorkspaceId) -> bool:
        one = self._broken.get(workspace_id)
        return one is not None and asyncio.get_running_loop().time() < one.not_before

    def note(self, row: Workspace, error: Exception) -> tuple[int, str]:
        """It broke once more: how many times in a row, and the cause in a few words."""
        cause = cause_of(error)
        self.total += 1
        one = self._broken.setdefault(row.id, _Broken(0, 0.0, None))
        one.times += 1
        one.not_before = asyncio.get_running_loop().time() + backoff(one.times).total_seconds()
        state = (row.status.phase, row.status.operation, row.status.op_id, cause)
        if one.told != state:
            log.error(
                "a workspace cannot be looked at or decided on; the others go on",
                workspace_id=str(row.id),
                cause=cause,
                exc_info=error,
            )
            one.told = state
        return one.times, cause

    def mended(self, workspace_id: WorkspaceId) -> None:
        self._broken.pop(workspace_id, None)


def cause_of(error: Exception) -> str:
    if isinstance(error, LookBroke):
        return str(error)
    return f"{type(error).__name__}: {error}"[:_LONGEST_CAUSE].rstrip(": ")
