"""What one tick decided about one row, until it is recorded and acted on."""

from dataclasses import dataclass

from codehub.coordinator.seeing import Sight
from codehub.model.actions import Action
from codehub.model.workspace import Status, Workspace


@dataclass(frozen=True, slots=True)
class Move:
    """What was decided about one row."""

    row: Workspace
    sight: Sight
    status: Status
    action: Action | None
    why: str

    @property
    def is_change(self) -> bool:
        return self.status != self.row.status

    @property
    def got_further(self) -> bool:
        """Whether the same look may carry it on: another operation, phase or home, and nothing to wait for."""
        was, now = self.row.status, self.status
        moved = (was.operation, was.op_id, was.phase, was.home_ctx) != (
            now.operation,
            now.op_id,
            now.phase,
            now.home_ctx,
        )
        return moved and self.action is None and now.error_count <= was.error_count


def asked_at(move: Move) -> float:
    """When a start was asked for (asking counts as a visit); of anything else, when somebody was there last."""
    at = move.row.wish.last_access_at
    return at.timestamp() if at is not None else 0.0
