"""The audit log, read: newest first, a page at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.db.pool import Connection


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries; None is all."""

    user: UUID | None = None
    workspace: UUID | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One entry; `username` is None for CodeHub itself, and for an account that is gone."""

    id: int
    at: datetime
    kind: str
    user_id: UUID | None
    username: str | None
    action: str
    workspace_id: UUID | None
    workspace_name: str | None
    address: str | None
    details: Mapping[str, Any]


# The primary key, or idx_audit_log_workspace, idx_audit_log_actor.
PAGE = """
SELECT id, at, actor_kind, actor_user_id, (SELECT username FROM users WHERE users.id = actor_user_id), action,
       workspace_id, (SELECT name FROM workspaces WHERE workspaces.id = audit_log.workspace_id), host(address), details
FROM audit_log
WHERE (%(after)s::bigint IS NULL OR id < %(after)s)
  AND (%(user)s::uuid IS NULL OR actor_user_id = %(user)s)
  AND (%(workspace)s::uuid IS NULL OR workspace_id = %(workspace)s)
  AND (%(action)s::text IS NULL OR action = %(action)s)
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
ORDER BY id DESC LIMIT %(limit)s
"""


async def page(conn: Connection, asked: AuditFilter, after: int | None, limit: int) -> Sequence[AuditLine]:
    given = {"after": after, "limit": limit, **asdict(asked)}
    return [AuditLine(*row) for row in await (await conn.execute(PAGE, given)).fetchall()]
