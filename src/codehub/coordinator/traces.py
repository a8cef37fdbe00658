"""Each operation as one span, from when it was taken to when its end was recorded; below it its driver calls, and its
storage job from when it was asked for to when it was removed.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

from codehub import tracing
from codehub.db.statuses import StatusChange
from codehub.model import actions as a
from codehub.model.workspace import Operation, OpId, Workspace
from codehub.tracing.spans import Span

_MOST_JOBS = 10_000


def recorded(changes: Iterable[StatusChange], now: datetime) -> None:
    """These were committed at that time, by the database's clock."""
    if not tracing.is_on():
        return
    for change in changes:
        was, is_now = change.was.status, change.now
        has_ended = was.operation is not Operation.NONE and (
            is_now.operation is not was.operation or is_now.op_id != was.op_id
        )
        if has_ended and was.op_id is not None and was.op_started_at is not None:
            tracing.record(
                str(was.operation),
                was.op_id,
                was.op_started_at,
                max(now, was.op_started_at),
                codehub__workspace=str(change.was.id),
                codehub__op_id=str(was.op_id),
                codehub__backend=str(change.was.instance_backend),
                codehub__phase=str(is_now.phase),
                codehub__error=str(is_now.error_reason) if is_now.error_reason else None,
            )


class Calls:
    """The driver calls of one leadership."""

    def __init__(self) -> None:
        self._jobs: dict[OpId, datetime] = {}  # when each was asked for

    def around(self, row: Workspace, op_id: OpId | None, action: a.Action) -> AbstractContextManager[Span | None]:
        """Around the one call that the action means."""
        if not tracing.is_on():
            return nullcontext()
        match action:
            case a.StartArchiveJob(job) | a.StartRestoreJob(job) if len(self._jobs) < _MOST_JOBS:
                self._jobs.setdefault(job, datetime.now(UTC))
            case a.RemoveJob(job) if (began := self._jobs.pop(job, None)) is not None:
                tracing.record(
                    "storage job",
                    job,
                    began,
                    datetime.now(UTC),
                    is_part=True,
                    codehub__workspace=str(row.id),
                    codehub__op_id=str(job),
                )
        return tracing.span(
            type(action).__name__,
            operation=op_id,
            codehub__workspace=str(row.id),
            codehub__op_id=str(op_id) if op_id is not None else None,
            codehub__backend=str(row.instance_backend),
        )
