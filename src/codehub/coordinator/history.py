"""What is worth remembering of a change: each change of phase, operation, op_id or error, and how long it took."""

from datetime import datetime

from codehub.db.statuses import HistoryEntry, StatusChange
from codehub.model.workspace import Operation


def entry_of(change: StatusChange, why: str, now: datetime) -> HistoryEntry | None:
    """The line for one change, or None when nothing happened that people would ask about."""
    was, status = change.was.status, change.now
    told = (was.phase, was.operation, was.op_id, was.error_reason) != (
        status.phase,
        status.operation,
        status.op_id,
        status.error_reason,
    )
    if not told:
        return None
    return HistoryEntry(
        workspace_id=change.was.id,
        at=now,
        phase=status.phase,
        operation=status.operation,
        op_id=status.op_id,
        error_reason=status.error_reason,
        reason=why,
        cause=change.was.wish.asked_by,
        duration_ms=_duration(change, now),
    )


def _duration(change: StatusChange, now: datetime) -> int | None:
    """Of an operation that ended; else of the phase that did."""
    was, status = change.was.status, change.now
    if was.operation is not Operation.NONE and status.op_started_at != was.op_started_at and was.op_started_at:
        return max(0, round((now - was.op_started_at).total_seconds() * 1000))
    if was.phase is not status.phase:
        return max(0, round((now - was.phase_changed_at).total_seconds() * 1000))
    return None
