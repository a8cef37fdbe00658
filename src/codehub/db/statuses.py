"""The controller's writes: a tick's results in one statement, and the history of what happened.

Each row is written only if it still is what the decision was made from; the others are left alone and the caller
learns which. Nothing at all is written by a leader that has been replaced.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from codehub.db.pool import Connection
from codehub.db.rows import home_context_json, storable
from codehub.errors import StaleLeader
from codehub.model import conditions
from codehub.model.workspace import ErrorReason, Operation, OpId, Phase, Status, Workspace, WorkspaceId


@dataclass(frozen=True, slots=True)
class StatusChange:
    """What a workspace was when it was decided on, and the status to give it."""

    was: Workspace
    now: Status

    @property
    def relies_on_wish(self) -> bool:
        """Whether it starts an operation or ends in ERROR: then it must be for what is still wished.

        An ERROR written over a deletion would say that whoever deleted the workspace had been told of it.
        """
        starts = self.was.status.operation is Operation.NONE and self.now.operation is not Operation.NONE
        return starts or (self.now.phase is Phase.ERROR and self.was.status.phase is not Phase.ERROR)


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


@dataclass(frozen=True, slots=True)
class Written:
    """The rows that were, and the number of this commit."""

    ids: set[WorkspaceId]
    commit: int


# `leader` holds off a new leader's epoch until this transaction has ended, and counts this commit (ADR 24). If the
# epoch has moved on, or the database has gone back behind a commit that it has confirmed, it is empty and so is
# everything after it. `change` locks the rows in the order of their ids, like every bulk write, so that two of them
# cannot deadlock. A row that changed since the decision (or while we waited for its lock) fails the comparison.
WRITE = """
WITH leader AS MATERIALIZED (
    UPDATE leadership SET commits = commits + 1 WHERE epoch = %(epoch)s AND commits >= %(after)s RETURNING commits
), given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(changes)s) AS change (
        id uuid, operation_was workspace_operation, op_id_was uuid, phase_was workspace_state, relies boolean,
        desired_was workspace_state, deleted_was timestamptz,
        conditions jsonb, phase workspace_state, phase_changed_at timestamptz, observed_at timestamptz,
        operation workspace_operation, op_started_at timestamptz, op_id uuid, archive_key text, home_ctx jsonb,
        endpoint text, error_reason text, error_count integer, retry_at timestamptz, recover_handled_id uuid)
    WHERE EXISTS (SELECT FROM leader)
), change AS MATERIALIZED (
    SELECT given.* FROM workspaces w JOIN given USING (id) ORDER BY w.id FOR NO KEY UPDATE OF w
), written AS (
    UPDATE workspaces w
    SET conditions = change.conditions, phase = change.phase, phase_changed_at = change.phase_changed_at,
        observed_at = change.observed_at, operation = change.operation, op_started_at = change.op_started_at,
        op_id = change.op_id, archive_key = change.archive_key, home_ctx = change.home_ctx,
        endpoint = change.endpoint, error_reason = change.error_reason, error_count = change.error_count,
        retry_at = change.retry_at, recover_handled_id = change.recover_handled_id
    FROM change
    WHERE w.id = change.id
      AND w.operation = change.operation_was
      AND w.op_id IS NOT DISTINCT FROM change.op_id_was
      AND w.phase = change.phase_was
      AND (NOT change.relies
           OR w.desired_state = change.desired_was AND w.deleted_at IS NOT DISTINCT FROM change.deleted_was)
    RETURNING w.id
)
SELECT (SELECT commits FROM leader), ARRAY(SELECT id FROM written)
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


async def write_statuses(conn: Connection, epoch: int, changes: Sequence[StatusChange], *, after: int = 0) -> Written:
    """Write all that still apply; raise `StaleLeader`, with nothing written, if `epoch` is old.

    The same if the database does not know the commit `after` any more, which it has confirmed. The fence lasts until
    the transaction ends, so what else is written in it is fenced too.
    """
    ids = [change.was.id for change in changes]
    if len(set(ids)) != len(ids):
        raise ValueError("a workspace can be changed only once in a write")
    arguments = {"epoch": epoch, "after": after, "changes": Jsonb([given(change) for change in changes])}
    row = await (await conn.execute(WRITE, arguments)).fetchone()
    assert row is not None
    commit, written = row
    if commit is None:
        raise StaleLeader(f"Leadership {epoch} has ended; another coordinator leads now, or the database went back.")
    return Written({WorkspaceId(identity) for identity in written}, commit)


async def record_history(conn: Connection, entries: Iterable[HistoryEntry]) -> None:
    """Append to the history, in the transaction that made it so."""
    rows = [
        (
            entry.workspace_id, entry.at, entry.phase.value, entry.operation.value, entry.op_id,
            entry.error_reason and entry.error_reason.value, storable(entry.reason), storable(entry.cause),
            entry.duration_ms,
        )
        for entry in entries
    ]  # fmt: skip
    if rows:
        await conn.execute(RECORD, [list(column) for column in zip(*rows, strict=True)])


async def prune_history(conn: Connection, before: datetime, limit: int) -> int:
    """Forget up to `limit` of the oldest entries from before that time, and say how many."""
    cursor = await conn.execute(PRUNE, [before, limit])
    return cursor.rowcount


def given(change: StatusChange) -> dict[str, Any]:
    """One element of the JSON array: measured, it takes half the time of an array for each column."""
    was, wish, now = change.was.status, change.was.wish, change.now
    return {
        "id": str(change.was.id),
        "operation_was": was.operation,
        "op_id_was": _text(was.op_id),
        "phase_was": was.phase,
        "relies": change.relies_on_wish,
        "desired_was": wish.desired_state,
        "deleted_was": _iso(wish.deleted_at),
        "conditions": storable(conditions.to_json(now.conditions)),
        "phase": now.phase,
        "phase_changed_at": _iso(now.phase_changed_at),
        "observed_at": _iso(now.observed_at),
        "operation": now.operation,
        "op_started_at": _iso(now.op_started_at),
        "op_id": _text(now.op_id),
        "archive_key": now.archive_key,
        "home_ctx": home_context_json(now.home_ctx),
        "endpoint": now.endpoint,
        "error_reason": now.error_reason,
        "error_count": now.error_count,
        "retry_at": _iso(now.retry_at),
        "recover_handled_id": _text(now.recover_handled_id),
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _text(identity: UUID | None) -> str | None:
    return None if identity is None else str(identity)
