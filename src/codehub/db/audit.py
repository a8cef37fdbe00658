"""The audit log: who did what, when and from where. Rows are added and read, never changed; old ones are forgotten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line."""

    user: UserId | None
    kind: str
    action: str
    workspace: WorkspaceId | None
    address: str | None
    details: Mapping[str, object]


async def insert(conn: Connection, entries: Sequence[Entry]) -> None:
    """One round trip, however many they are."""
    async with conn.pipeline():
        for entry in entries:
            await conn.execute(INSERT, _arguments(entry))


def _arguments(entry: Entry) -> dict[str, object]:
    plain = {name: str(value) if isinstance(value, UUID) else value for name, value in entry.details.items()}
    return {
        "user": entry.user, "kind": entry.kind, "action": entry.action, "workspace": entry.workspace,
        "address": entry.address, "details": Jsonb(storable(plain)),
    }  # fmt: skip


async def prune(conn: Connection, older_than: timedelta, limit: int) -> int:
    """Forget up to `limit` of the oldest entries that are older than that; how many. The controller's role may."""
    return (await conn.execute(PRUNE, [older_than, limit])).rowcount
