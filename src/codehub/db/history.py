"""What happened to a workspace, newest first. The controller writes it (statuses.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from codehub.db.pool import Connection
from codehub.model.workspace import WorkspaceId


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
