"""The audit log: who did what, when and from where. Rows are added and read, never changed; old ones are forgotten."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from psycopg.types.json import Jsonb

from codehub.db.pool import Connection
from codehub.db.rows import storable
from codehub.model.workspace import UserId, WorkspaceId

INSERT = """
INSERT INTO audit_log (actor_user_id, actor_kind, action, workspace_id, address, details)
VALUES (%(user)s, %(kind)s, %(action)s, %(workspace)s, %(address)s, %(details)s)
"""

# idx_audit_log_at
PRUNE = """
DELETE FROM audit_log
WHERE id IN (SELECT id FROM audit_log WHERE at < now() - %s::interval ORDER BY at LIMIT %s)
"""


async def insert(
    conn: Connection,
    *,
    user: UserId | None,
    kind: str,
    action: str,
    workspace: WorkspaceId | None,
    address: str | None,
    details: Mapping[str, object],
) -> None:
    plain = {name: str(value) if isinstance(value, UUID) else value for name, value in details.items()}
    values = {
        "user": user, "kind": kind, "action": action, "workspace": workspace, "address": address,
        "details": Jsonb(storable(plain)),
    }  # fmt: skip
    await conn.execute(INSERT, values)


async def prune(conn: Connection, older_than: timedelta, limit: int) -> int:
    """Forget up to `limit` of the oldest entries that are older than that; how many. The controller's role may."""
    return (await conn.execute(PRUNE, [older_than, limit])).rowcount
