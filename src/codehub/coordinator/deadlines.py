"""From when an operation's time limit counts: what only this leader knows, and may forget.

Neither an outage, nor the wait for a place in a lane, nor a verification that takes long, nor the time before this
leader began, nor a jump of the clock may time an operation out. Forgetting only ever gives more time.
"""

from dataclasses import dataclass, field
from datetime import datetime

from codehub.model.actions import Action, MakeArchive
from codehub.model.failure import Rules, deadline
from codehub.model.tick import NEEDS_STORE
from codehub.model.workspace import InstanceBackend, OpId, Workspace, WorkspaceId

LONGEST_CALL_SECONDS = 1800.0  # of what no operation's limit is about
_PAST_THE_LIMIT_SECONDS = 0.1  # so that whoever judges next sees that it has passed


@dataclass(slots=True)
class _Mark:
    op_id: OpId | None
    at: datetime


@dataclass
class Deadlines:
    """The latest moment before which no deadline ran, for each workspace."""

    began_at: datetime | None = None  # this leader's first look
    store_back_at: datetime | None = None
    backend_back_at: dict[InstanceBackend, datetime] = field(default_factory=dict)
    _marks: dict[WorkspaceId, _Mark] = field(default_factory=dict)

    def first_attempt(self, workspace_id: WorkspaceId, op_id: OpId | None, at: datetime) -> None:
        """An action of the operation left its lane. Later attempts count from the first: a lie gains no time."""
        mark = self._marks.get(workspace_id)
        if mark is None or mark.op_id != op_id:
            self._marks[workspace_id] = _Mark(op_id, at)

    def progressed(self, workspace_id: WorkspaceId, op_id: OpId | None, at: datetime) -> None:
        """The operation got further: a job that moved, an archive that was read back."""
        mark = self._marks.get(workspace_id)
        if mark is None or mark.op_id != op_id:
            self._marks[workspace_id] = _Mark(op_id, at)
        else:
            mark.at = max(mark.at, at)

    def restart(self, at: datetime) -> None:
        """The clock jumped: what was noted by it says nothing any more."""
        self.began_at, self.store_back_at = at, None
        self.backend_back_at.clear()
        self._marks.clear()

    def ended(self, workspace_id: WorkspaceId) -> None:
        self._marks.pop(workspace_id, None)

    def of(self, workspace: Workspace) -> datetime | None:
        mark = self._marks.get(workspace.id)
        own = mark.at if mark is not None and mark.op_id == workspace.status.op_id else None
        back = self.backend_back_at.get(workspace.instance_backend)
        store = self.store_back_at if workspace.status.operation in NEEDS_STORE else None
        known = [at for at in (self.began_at, store, back, own) if at is not None]
        return max(known, default=None)

    def call_seconds(self, row: Workspace, action: Action, now: datetime, rules: Rules) -> float | None:
        """How long this call may take, so that the operation's limit holds while it is under way.

        None: no limit is about it, or it gets further in a way that is not seen here, as a large copy does.
        """
        until = deadline(row.status, self.of(row), now, rules)
        if until is None or isinstance(action, MakeArchive):
            return None
        return max((until - now).total_seconds(), 0.0) + _PAST_THE_LIMIT_SECONDS
