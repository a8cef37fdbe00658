"""What becomes of a workspace about which looking or deciding itself breaks, again and again.

It is a bug of ours, or a row that nobody expected. The workspace ends in ERROR, where a person sees the cause; nothing
of it is touched but a job of its operation, which must be gone before the operation ends. A deleted one stays as it is:
nothing is terminal for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from codehub.model import actions as a
from codehub.model.health import judge
from codehub.model.observation import JobSeen
from codehub.model.phase import calculate_phase
from codehub.model.tick import Decision
from codehub.model.workspace import ErrorReason, Operation, Phase, Workspace


def given_up(workspace: Workspace, jobs: Sequence[JobSeen] | None, cause: str, now: datetime) -> Decision:
    """ERROR with the cause in it; until its jobs are known to be gone the row stays as it is."""
    status = workspace.status
    why = f"What is to be done about it cannot be told: {cause}"
    if workspace.wish.deleted_at is not None or status.phase is Phase.ERROR:
        return Decision(status, None, why)
    if status.operation is not Operation.NONE and jobs is None:
        return Decision(status, None, "its job could not be looked at")
    if status.operation is not Operation.NONE and jobs:
        return Decision(status, a.RemoveJob(jobs[0].op_id), "its job must be gone before it ends")
    home = status.home_ctx
    if status.operation is Operation.STARTING:
        home = replace(home, instance_op=None)  # so that its instance is removed, now or when it lands late
    reason = ErrorReason.RETRY_EXCEEDED
    conditions = status.conditions.with_health(judge(status.conditions, reason, now, why))
    failed = replace(
        status,
        conditions=conditions,
        phase=calculate_phase(conditions, workspace.wish.deleted_at, status.archive_key),
        phase_changed_at=now,
        operation=Operation.NONE,
        op_started_at=None,
        home_ctx=home,
        endpoint=None,
        error_reason=reason,
        error_count=max(status.error_count, 1),
        retry_at=None,
    )
    return Decision(failed, None, why)
