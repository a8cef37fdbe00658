"""What the service layer writes about many workspaces at once, and new ones; db/editing.py what people want.

Everything is compare-and-set on what it was decided from: where something changed meanwhile, nothing is done.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from codehub.db.pool import Connection
from codehub.db.rows import COLUMNS, storable, workspace_of
from codehub.model.names import volume_name
from codehub.model.ttl import Transition
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    InstanceBackend,
    StorageBackend,
    UserId,
    Workspace,
    WorkspaceId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkspace:
    """What is set at creation; everything else begins with the column's default."""

    id: WorkspaceId
    owner_user_id: UserId
    name: str
    image_ref: str
    instance_backend: InstanceBackend
    storage_backend: StorageBackend
    standby_ttl_seconds: int
    archive_ttl_seconds: int
    description: str | None = None
    memo: str | None = None
    tags: tuple[str, ...] = ()
    source_archive: ArchiveKey | None = None
    desired_state: Desired = Desired.RUNNING
    asked_by: str = ""


INSERT = SQL("""
INSERT INTO workspaces (
    id, owner_user_id, instance_backend, storage_backend, home_store_key, source_archive, name, description, memo,
    tags, image_ref, desired_state, standby_ttl_seconds, archive_ttl_seconds, asked_by)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
RETURNING {COLUMNS}
""").format(COLUMNS=COLUMNS)

# Starting counts as access, or a workspace that was idle for long would be stopped again at once.
# A TTL also loses to any activity, keep-awake or change of the TTL that arrived since it read the row. The rows are
# locked in the order of their ids, like every bulk write, so that two of them cannot deadlock.
EXPIRE = """
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(expired)s) AS expired (
        id uuid, desired workspace_state, asked_by text, desired_was workspace_state,
        operation_was workspace_operation, phase_was workspace_state, deleted_was timestamptz,
        accessed_was timestamptz, awake_was timestamptz, phase_changed_was timestamptz, standby_ttl_was integer,
        archive_ttl_was integer)
), locked AS MATERIALIZED (
    SELECT given.* FROM workspaces w JOIN given USING (id) ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE workspaces w SET desired_state = locked.desired, asked_by = locked.asked_by
FROM locked
WHERE w.id = locked.id AND w.desired_state = locked.desired_was AND w.operation = locked.operation_was
  AND w.phase = locked.phase_was AND w.deleted_at IS NOT DISTINCT FROM locked.deleted_was
  AND w.last_access_at IS NOT DISTINCT FROM locked.accessed_was
  AND w.keep_awake_until IS NOT DISTINCT FROM locked.awake_was
  AND w.phase_changed_at = locked.phase_changed_was
  AND w.standby_ttl_seconds = locked.standby_ttl_was AND w.archive_ttl_seconds = locked.archive_ttl_was
"""

# A workspace that steps down for its deletion has arrived: nothing is left to archive.
FINISH_DELETIONS = """
WITH locked AS MATERIALIZED (
    SELECT id FROM workspaces WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
)
UPDATE workspaces w SET deleted_at = now()
FROM locked
WHERE w.id = locked.id AND w.desired_state = 'DELETED' AND w.phase IN ('ARCHIVED', 'PENDING')
  AND w.operation = 'NONE' AND w.deleted_at IS NULL
  AND (w.phase = 'PENDING' OR w.conditions -> 'storage.volume_ready' ->> 'reason' = 'VolumeNotFound')
"""

TOUCH_ACCESS = """
WITH visited AS MATERIALIZED (
    SELECT id, now() - make_interval(secs => age) AS at
    FROM unnest(%(ids)s::uuid[], %(ages)s::float8[]) AS visit (id, age)
), locked AS MATERIALIZED (
    SELECT w.id, visited.at FROM workspaces w JOIN visited USING (id) ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE workspaces w SET last_access_at = locked.at
FROM locked
WHERE w.id = locked.id AND (w.last_access_at IS NULL OR w.last_access_at < locked.at)
"""

# Nobody is idle because the clock jumped: whoever runs counts as used now, and a lease lasts as long as it did before.
RESTART_IDLE_TIMES = """
WITH locked AS MATERIALIZED (
    SELECT id FROM workspaces WHERE desired_state = 'RUNNING' AND deleted_at IS NULL ORDER BY id FOR NO KEY UPDATE
)
UPDATE workspaces w
SET last_access_at = now(),
    keep_awake_until = w.keep_awake_until
        + CASE WHEN w.keep_awake_until > now() - %(jump)s::interval THEN %(jump)s::interval ELSE '0' END
FROM locked WHERE w.id = locked.id
"""


async def insert(conn: Connection, new: NewWorkspace) -> Workspace:
    """Create the row; the controller takes it from there."""
    values = [
        new.id, new.owner_user_id, new.instance_backend.value, new.storage_backend.value, volume_name(new.id),
        new.source_archive, new.name, new.description, new.memo, list(new.tags), new.image_ref, new.desired_state.value,
        new.standby_ttl_seconds, new.archive_ttl_seconds, storable(new.asked_by),
    ]  # fmt: skip
    row = await (await conn.execute(INSERT, values)).fetchone()
    assert row is not None
    return workspace_of(row)


async def expire(conn: Connection, expired: Sequence[tuple[Workspace, Transition]]) -> int:
    """Set what TTLs ask for, in one statement; anything that would put one off wins. Rows changed."""
    cursor = await conn.execute(EXPIRE, {"expired": Jsonb([expired_json(*each) for each in expired])})
    return cursor.rowcount


async def finish_deletions(conn: Connection, ids: Collection[WorkspaceId]) -> int:
    """Put those in the trash that have stepped down for it; others are left alone. Rows changed."""
    cursor = await conn.execute(FINISH_DELETIONS, [list(ids)])
    return cursor.rowcount


async def touch_access(conn: Connection, ages: Mapping[WorkspaceId, float]) -> int:
    """Record how many seconds ago workspaces were last used; an earlier use than the known one changes nothing."""
    cursor = await conn.execute(TOUCH_ACCESS, {"ids": list(ages.keys()), "ages": list(ages.values())})
    return cursor.rowcount


async def restart_idle_times(conn: Connection, jump: timedelta) -> int:
    """The database's clock jumped by this much: everybody's idle time begins anew. Rows changed."""
    cursor = await conn.execute(RESTART_IDLE_TIMES, {"jump": jump})
    return cursor.rowcount


def expired_json(was: Workspace, transition: Transition) -> dict[str, Any]:
    """One element of EXPIRE's array: the row as it was read, and what to make of it."""
    wish, status = was.wish, was.status
    return {
        "id": str(was.id),
        "desired": transition.to,
        "asked_by": f"ttl: {transition.because}",
        "desired_was": wish.desired_state,
        "operation_was": status.operation,
        "phase_was": status.phase,
        "deleted_was": _iso(wish.deleted_at),
        "accessed_was": _iso(wish.last_access_at),
        "awake_was": _iso(wish.keep_awake_until),
        "phase_changed_was": _iso(status.phase_changed_at),
        "standby_ttl_was": wish.standby_ttl_seconds,
        "archive_ttl_was": wish.archive_ttl_seconds,
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
