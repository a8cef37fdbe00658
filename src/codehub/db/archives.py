"""What GC needs to know of the rows: which archives somebody still needs.

Nothing is left out for being deleted: a row says of its own archives when they may go.
"""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from psycopg.sql import SQL

from codehub.db.pool import Connection
from codehub.model.gc import KnownWorkspace
from codehub.model.workspace import WorkspaceId

_BEFORE_ALL = UUID(int=0)
_COLUMNS = SQL("id, archive_key, op_id, deleted_at, purged_at, source_archive")

KNOWN = SQL("SELECT {COLUMNS} FROM workspaces WHERE id > %s ORDER BY id LIMIT %s").format(COLUMNS=_COLUMNS)

# The primary key, and idx_workspaces_source: a workspace that is still to be made from one of these archives.
KNOWN_OF = SQL("""
SELECT {COLUMNS} FROM workspaces WHERE id = ANY(%(ids)s)
UNION
SELECT {COLUMNS} FROM workspaces
WHERE deleted_at IS NULL AND source_archive IS NOT NULL AND source_archive = ANY(%(keys)s)
""").format(COLUMNS=_COLUMNS)


async def known(conn: Connection, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
    """One page of all workspaces, in the order of ids."""
    cursor = await conn.execute(KNOWN, [after or _BEFORE_ALL, limit])
    return [_known_of(row) async for row in cursor]


async def known_of(conn: Connection, ids: Collection[WorkspaceId], keys: Collection[str]) -> Sequence[KnownWorkspace]:
    """These workspaces, and any that is not deleted and was to be made from one of `keys`."""
    cursor = await conn.execute(KNOWN_OF, {"ids": list(ids), "keys": list(keys)})
    return [_known_of(row) async for row in cursor]


def _known_of(row: tuple[Any, ...]) -> KnownWorkspace:
    identity, archive_key, op_id, deleted_at, purged_at, source_archive = row
    return KnownWorkspace(
        id=WorkspaceId(identity),
        archive_key=archive_key,
        op_id=op_id,
        deleted_at=deleted_at,
        purged_at=purged_at,
        source_archive=source_archive,
    )
