"""What happened to a workspace, newest first. The controller writes it (statuses.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from codehub.db.pool import Connection
from codehub.model.workspace import Operation, WorkspaceId


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One change: what it led to, why, who or what asked for it, and how long what ended had taken."""

    id: int
    at: datetime
    phase: str
    operation: str
    error_reason: str | None
    reason: str
    cause: str
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """Where a page ends."""

    at: datetime
    id: int


# idx_workspace_history_workspace
PAGE = """
SELECT id, at, phase, operation, error_reason, reason, cause, duration_ms FROM workspace_history
WHERE workspace_id = %(workspace)s
  AND (%(at)s::timestamptz IS NULL OR at < %(at)s OR (at = %(at)s AND id < %(id)s))
ORDER BY at DESC, id DESC LIMIT %(limit)s
"""

# The last times that this operation ended well: a line in which it began, and one of the same op_id in which it ended.
USUAL = """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ended.duration_ms) / 1000.0 FROM (
    SELECT DISTINCT op_id FROM workspace_history
    WHERE workspace_id = %(workspace)s AND operation = %(operation)s AND at > now() - interval '30 days'
    LIMIT 50
) AS begun JOIN workspace_history ended
    ON ended.workspace_id = %(workspace)s AND ended.op_id = begun.op_id AND ended.operation = 'NONE'
WHERE ended.error_reason IS NULL AND ended.duration_ms IS NOT NULL
"""


async def usual_seconds(conn: Connection, workspace: WorkspaceId, operation: Operation) -> float | None:
    """The median of how long it took; None when it has not happened lately."""
    row = await (await conn.execute(USUAL, {"workspace": workspace, "operation": operation.value})).fetchone()
    return None if row is None or row[0] is None else float(row[0])


async def page(
    conn: Connection, workspace: WorkspaceId, after: HistoryPlace | None, limit: int
) -> Sequence[HistoryLine]:
    arguments = {
        "workspace": workspace,
        "at": None if after is None else after.at,
        "id": None if after is None else after.id,
        "limit": limit,
    }
    cursor = await conn.execute(PAGE, arguments)
    return [HistoryLine(*row) for row in await cursor.fetchall()]
