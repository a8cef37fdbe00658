"""A person's wish, written straight to the row, for tests whose matter is what becomes of it."""

from codehub.db.pool import Connection
from codehub.model.workspace import Desired, Workspace

_SET_DESIRED = """
UPDATE workspaces
SET desired_state = %(desired)s::workspace_state, asked_by = %(asked_by)s,
    last_access_at = CASE WHEN %(desired)s = 'RUNNING' THEN greatest(last_access_at, now()) ELSE last_access_at END
WHERE id = %(id)s AND desired_state = %(desired_was)s AND operation = %(operation_was)s AND phase = %(phase_was)s
  AND deleted_at IS NOT DISTINCT FROM %(deleted_was)s::timestamptz
"""


async def set_desired(conn: Connection, desired: Desired, *, was: Workspace, asked_by: str) -> bool:
    """Wish for `desired`, unless wish, operation, phase or deletion is no longer what it was."""
    cursor = await conn.execute(
        _SET_DESIRED,
        {
            "id": was.id,
            "desired": desired.value,
            "asked_by": asked_by,
            "desired_was": was.wish.desired_state.value,
            "operation_was": was.status.operation.value,
            "phase_was": was.status.phase.value,
            "deleted_was": was.wish.deleted_at,
        },
    )
    return cursor.rowcount == 1
