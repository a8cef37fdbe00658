"""What the service layer writes: new workspaces and people's wishes.

A wish is set by compare-and-set on what it was decided from; False means that something changed meanwhile, and the
caller reads and decides again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg.sql import SQL

from codehub.db.pool import Connection
from codehub.db.rows import COLUMNS, workspace_of
from codehub.model.names import volume_name
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
    source_archive: ArchiveKey | None = None
    desired_state: Desired = Desired.RUNNING


INSERT = SQL("""
INSERT INTO workspaces (
    id, owner_user_id, instance_backend, storage_backend, home_store_key, source_archive, name, description, memo,
    image_ref, desired_state, standby_ttl_seconds, archive_ttl_seconds)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
RETURNING {COLUMNS}
""").format(COLUMNS=COLUMNS)

# Starting counts as access, or a workspace that was idle for long would be stopped again at once.
SET_DESIRED = SQL("""
UPDATE workspaces
SET desired_state = %(desired)s::workspace_state,
    last_access_at = CASE WHEN %(desired)s = 'RUNNING' THEN greatest(last_access_at, now()) ELSE last_access_at END
WHERE id = %(id)s AND desired_state = %(desired_was)s AND operation = %(operation_was)s AND phase = %(phase_was)s
  AND deleted_at IS NOT DISTINCT FROM %(deleted_was)s::timestamptz
""")

# A TTL also loses to any activity, keep-awake or change of the TTL that arrived since it read the row.
EXPIRE = SQL("""
{SET_DESIRED}
  AND last_access_at IS NOT DISTINCT FROM %(accessed_was)s::timestamptz
  AND keep_awake_until IS NOT DISTINCT FROM %(awake_was)s::timestamptz
  AND phase_changed_at = %(phase_changed_was)s
  AND standby_ttl_seconds = %(standby_ttl_was)s AND archive_ttl_seconds = %(archive_ttl_was)s
""").format(SET_DESIRED=SET_DESIRED)

# The rows are locked in the order of their ids, like every bulk write, so that two of them cannot deadlock.
TOUCH_ACCESS = """
WITH visited AS MATERIALIZED (
    SELECT id, least(at, now()) AS at  -- a proxy's clock may be ahead; ours decides
    FROM unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS visit (id, at)
), locked AS MATERIALIZED (
    SELECT w.id, visited.at FROM workspaces w JOIN visited USING (id) ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE workspaces w SET last_access_at = locked.at
FROM locked
WHERE w.id = locked.id AND (w.last_access_at IS NULL OR w.last_access_at < locked.at)
"""


async def insert(conn: Connection, new: NewWorkspace) -> Workspace:
    """Create the row; the controller takes it from there."""
    values = [
        new.id, new.owner_user_id, new.instance_backend.value, new.storage_backend.value, volume_name(new.id),
        new.source_archive, new.name, new.description, new.memo, new.image_ref, new.desired_state.value,
        new.standby_ttl_seconds, new.archive_ttl_seconds,
    ]  # fmt: skip
    row = await (await conn.execute(INSERT, values)).fetchone()
    assert row is not None
    return workspace_of(row)


async def set_desired(conn: Connection, desired: Desired, *, was: Workspace) -> bool:
    """Wish for `desired`, unless wish, operation, phase or deletion is no longer what it was."""
    cursor = await conn.execute(SET_DESIRED, _expectations(desired, was))
    return cursor.rowcount == 1


async def expire(conn: Connection, desired: Desired, *, was: Workspace) -> bool:
    """`set_desired` for a TTL: anything that would put it off wins."""
    cursor = await conn.execute(EXPIRE, _expectations(desired, was))
    return cursor.rowcount == 1


async def touch_access(conn: Connection, visits: Mapping[WorkspaceId, datetime]) -> int:
    """Record when workspaces were last used; a time earlier than the known one changes nothing. Rows changed."""
    cursor = await conn.execute(TOUCH_ACCESS, {"ids": list(visits.keys()), "times": list(visits.values())})
    return cursor.rowcount


def _expectations(desired: Desired, was: Workspace) -> dict[str, object]:
    wish, status = was.wish, was.status
    return {
        "id": was.id,
        "desired": desired.value,
        "desired_was": wish.desired_state.value,
        "operation_was": status.operation.value,
        "phase_was": status.phase.value,
        "deleted_was": wish.deleted_at,
        "accessed_was": wish.last_access_at,
        "awake_was": wish.keep_awake_until,
        "phase_changed_was": status.phase_changed_at,
        "standby_ttl_was": wish.standby_ttl_seconds,
        "archive_ttl_was": wish.archive_ttl_seconds,
    }
