"""The audit log, read a page at a time: newest first, or oldest first."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One entry; `username` is None for CodeHub itself. `names` are those of what the details name by an id."""

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
    names: Mapping[str, str] = field(default_factory=dict)


# A deleted account has given its name back; the entry of its deletion, of the same moment, still tells it, as long as
# there is that entry: idx_audit_log_at.
_USERNAME = """
CASE WHEN users.deleted_at IS NULL THEN username ELSE coalesce(
    (SELECT gone.details ->> 'username' FROM audit_log AS gone
     WHERE gone.at = users.deleted_at AND gone.action = 'user.delete' AND gone.details ->> 'user' = users.id::text
     LIMIT 1), username) END
"""

# The primary key, or idx_audit_log_workspace, idx_audit_log_actor.
PAGE = f"""
SELECT id, at, actor_kind, actor_user_id, (SELECT {_USERNAME} FROM users WHERE users.id = actor_user_id), action,
       workspace_id, (SELECT name FROM workspaces WHERE workspaces.id = audit_log.workspace_id), host(address), details
FROM audit_log
WHERE (%(after)s::bigint IS NULL OR id < %(after)s)
  AND (%(user)s::uuid IS NULL OR actor_user_id = %(user)s)
  AND (%(workspace)s::uuid IS NULL OR workspace_id = %(workspace)s)
  AND (%(action)s::text IS NULL OR action = %(action)s)
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 - constants


OLDEST_FIRST = PAGE.replace("id < %(after)s", "id > %(after)s").replace("ORDER BY id DESC", "ORDER BY id")

# Of each detail that is an id: whose name it has.
NAMES = f"""
SELECT 'user', id, {_USERNAME} FROM users WHERE id = ANY(%(user)s)
UNION ALL SELECT 'from_archive', id, name FROM workspaces WHERE id = ANY(%(from_archive)s)
UNION ALL SELECT 'token', id, name FROM tokens WHERE id = ANY(%(token)s)
"""  # noqa: S608 - constants
_NAMED = ("user", "from_archive", "token")


async def page(conn: Connection, asked: AuditFilter, after: int | None, limit: int) -> Sequence[AuditLine]:
    given = {"after": after, "limit": limit, **asdict(asked)}
    query = OLDEST_FIRST if asked.oldest_first else PAGE
    lines = [AuditLine(*row) for row in await (await conn.execute(query, given)).fetchall()]
    ids = {name: [here for line in lines if (here := _id_of(line, name))] for name in _NAMED}
    if not any(ids.values()):
        return lines
    names = {(row[0], row[1]): row[2] for row in await (await conn.execute(NAMES, ids)).fetchall()}
    return [replace(line, names=_names_of(line, names)) for line in lines]


def _names_of(line: AuditLine, names: Mapping[tuple[str, UUID], str]) -> Mapping[str, str]:
    return {name: names[name, here] for name in _NAMED if (here := _id_of(line, name)) and (name, here) in names}


def _id_of(line: AuditLine, name: str) -> UUID | None:
    try:
        return UUID(line.details[name])
    except (KeyError, ValueError, AttributeError, TypeError):
        return None
