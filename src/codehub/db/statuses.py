"""The controller's writes: a tick's results in one statement, and the history of what happened.

Each row is written only if it still is what the decision was made from; the others are left alone and the caller
learns which. Nothing at all is written by a leader that has been replaced.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from codehub.db.pool import Connection
from codehub.db.rows import home_context_json
from codehub.errors import StaleLeader
from codehub.model import conditions
from codehub.model.workspace import ErrorReason, Operation, OpId, Phase, Status, Workspace, WorkspaceId


@dataclass(frozen=True, slots=True)
class StatusChange:
    """What a workspace was when it was decided on, and the status to give it."""

    was: Workspace
    now: Status

    @property
    def starts_operation(self) -> bool:
        return self.was.status.operation is Operation.NONE and self.now.operation is not Operation.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One line of a workspace's history. `reason` says what happened, `cause` who or what asked for it."""

    workspace_id: WorkspaceId
    at: datetime
    phase: Phase
    operation: Operation
    op_id: OpId | None = None
    error_reason: ErrorReason | None = None
    reason: str = ""
    cause: str = ""
    duration_ms: int | None = None


# `leader` holds off a new leader's epoch until this transaction has ended; if the epoch has moved on, it is empty and
# so is everything after it. `locked` takes the rows in the order of their ids, like every bulk write, so that two of
# them cannot deadlock. A row that changed since the decision (or while we waited for its lock) fails the comparison.
WRITE = """
WITH leader AS MATERIALIZED (
    SELECT epoch FROM leadership WHERE epoch = %(epoch)s FOR SHARE
), change AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::uuid[], %(operation_was)s::workspace_operation[], %(op_id_was)s::uuid[],
        %(phase_was)s::workspace_state[], %(starts)s::boolean[], %(desired_was)s::workspace_state[],
        %(deleted_was)s::timestamptz[],
        %(conditions)s::jsonb[], %(phase)s::workspace_state[], %(phase_changed_at)s::timestamptz[],
        %(observed_at)s::timestamptz[], %(operation)s::workspace_operation[], %(op_started_at)s::timestamptz[],
        %(op_id)s::uuid[], %(archive_key)s::text[], %(home_ctx)s::jsonb[], %(endpoint)s::text[],
        %(error_reason)s::text[], %(error_count)s::integer[], %(retry_at)s::timestamptz[],
        %(recover_handled_id)s::uuid[]
    ) AS given (
        id, operation_was, op_id_was, phase_was, starts, desired_was, deleted_was,
        conditions, phase, phase_changed_at, observed_at, operation, op_started_at, op_id, archive_key, home_ctx,
        endpoint, error_reason, error_count, retry_at, recover_handled_id)
    WHERE EXISTS (SELECT FROM leader)
), locked AS MATERIALIZED (
    SELECT w.id FROM workspaces w JOIN change USING (id) ORDER BY w.id FOR NO KEY UPDATE OF w
), written AS (
    UPDATE workspaces w
    SET conditions = change.conditions, phase = change.phase, phase_changed_at = change.phase_changed_at,
        observed_at = change.observed_at, operation = change.operation, op_started_at = change.op_started_at,
        op_id = change.op_id, archive_key = change.archive_key, home_ctx = change.home_ctx,
        endpoint = change.endpoint, error_reason = change.error_reason, error_count = change.error_count,
        retry_at = change.retry_at, recover_handled_id = change.recover_handled_id
    FROM change JOIN locked USING (id)
    WHERE w.id = change.id
      AND w.operation = change.operation_was
      AND w.op_id IS NOT DISTINCT FROM change.op_id_was
      AND w.phase = change.phase_was
      AND (NOT change.starts
           OR w.desired_state = change.desired_was AND w.deleted_at IS NOT DISTINCT FROM change.deleted_was)
    RETURNING w.id
)
SELECT EXISTS (SELECT FROM leader), ARRAY(SELECT id FROM written)
"""

RECORD = """
INSERT INTO workspace_history (
    workspace_id, at, phase, operation, op_id, error_reason, reason, cause, duration_ms)
SELECT * FROM unnest(
    %s::uuid[], %s::timestamptz[], %s::workspace_state[], %s::workspace_operation[], %s::uuid[], %s::text[], %s::text[],
    %s::text[], %s::bigint[])
"""

PRUNE = """
DELETE FROM workspace_history
WHERE id IN (SELECT id FROM workspace_history WHERE at < %s ORDER BY at LIMIT %s)
"""


async def write_statuses(conn: Connection, epoch: int, changes: Sequence[StatusChange]) -> set[WorkspaceId]:
    """Write all that still apply and return their ids; raise `StaleLeader`, with nothing written, if `epoch` is old.

    The fence lasts until the transaction ends, so what else is written in it is fenced too.
    """
    ids = [change.was.id for change in changes]
    if len(set(ids)) != len(ids):
        raise ValueError("a workspace can be changed only once in a write")
    row = await (await conn.execute(WRITE, {"epoch": epoch, "id": ids, **_arguments(changes)})).fetchone()
    assert row is not None
    is_leader, written = row
    if not is_leader:
        raise StaleLeader(f"Leadership {epoch} has ended; another coordinator leads now.")
    return {WorkspaceId(identity) for identity in written}


async def record_history(conn: Connection, entries: Iterable[HistoryEntry]) -> None:
    """Append to the history, in the transaction that made it so."""
    rows = [
        (
            entry.workspace_id, entry.at, entry.phase.value, entry.operation.value, entry.op_id,
            entry.error_reason and entry.error_reason.value, entry.reason, entry.cause, entry.duration_ms,
        )
        for entry in entries
    ]  # fmt: skip
    if rows:
        await conn.execute(RECORD, [list(column) for column in zip(*rows, strict=True)])


async def prune_history(conn: Connection, before: datetime, limit: int) -> int:
    """Forget up to `limit` of the oldest entries from before that time, and say how many."""
    cursor = await conn.execute(PRUNE, [before, limit])
    return cursor.rowcount


def _arguments(changes: Sequence[StatusChange]) -> dict[str, list[Any]]:
    was = [change.was.status for change in changes]
    wish = [change.was.wish for change in changes]
    now = [change.now for change in changes]
    return {
        "operation_was": [status.operation.value for status in was],
        "op_id_was": [status.op_id for status in was],
        "phase_was": [status.phase.value for status in was],
        "starts": [change.starts_operation for change in changes],
        "desired_was": [each.desired_state.value for each in wish],
        "deleted_was": [each.deleted_at for each in wish],
        "conditions": [Jsonb(conditions.to_json(status.conditions)) for status in now],
        "phase": [status.phase.value for status in now],
        "phase_changed_at": [status.phase_changed_at for status in now],
        "observed_at": [status.observed_at for status in now],
        "operation": [status.operation.value for status in now],
        "op_started_at": [status.op_started_at for status in now],
        "op_id": [status.op_id for status in now],
        "archive_key": [status.archive_key for status in now],
        "home_ctx": [home_context_json(status.home_ctx) for status in now],
        "endpoint": [status.endpoint for status in now],
        "error_reason": [status.error_reason and status.error_reason.value for status in now],
        "error_count": [status.error_count for status in now],
        "retry_at": [status.retry_at for status in now],
        "recover_handled_id": [status.recover_handled_id for status in now],
    }
