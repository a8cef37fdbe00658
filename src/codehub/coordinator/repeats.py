"""Pauses before the same thing is asked for again: an action of which no look shows the effect, a look in vain.

The end of an errand wakes the next tick at once, so without a pause a listing that lags behind would have the same
call repeated a hundred times a second.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field

from codehub.model.workspace import WorkspaceId

_FIRST_SECONDS = 0.2
_LONGEST_SECONDS = 10.0


@dataclass(slots=True)
class _Asked:
    what: Hashable
    pause: float
    not_before: float


@dataclass
class Repeats:
    """What was asked for last for each workspace that is in the middle of something."""

    _asked: dict[WorkspaceId, _Asked] = field(default_factory=dict)

    def may_ask(self, workspace_id: WorkspaceId, what: Hashable) -> bool:
        """Whether to ask now; if so, the same thing must wait before it is asked for again."""
        now = asyncio.get_running_loop().time()
        last = self._asked.get(workspace_id)
        if last is None or last.what != what:
            self._asked[workspace_id] = _Asked(what, _FIRST_SECONDS, now + _FIRST_SECONDS)
            return True
        if now < last.not_before:
            return False
        last.pause = min(last.pause * 2, _LONGEST_SECONDS)
        last.not_before = now + last.pause
        return True

    def forget(self, workspace_id: WorkspaceId) -> None:
        """It has gone on to something else."""
        self._asked.pop(workspace_id, None)
