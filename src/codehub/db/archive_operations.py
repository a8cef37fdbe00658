"""Which operations this database remembers having begun an archive with (table archive_operations, ADR 16).

A trigger on `workspaces` writes it (revision 0022), so that no writer can leave it out. GC forgets what left no
archive.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from codehub.db.pool import Connection
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId

# Longer than any upload takes. What is forgotten too early is kept for an administrator, never lost.
_OLD = timedelta(days=7)
_ZERO = UUID(int=0)

_SINCE = "SELECT archives_known_since FROM leadership"

_GIVEN = "unnest(%(workspaces)s::uuid[], %(ops)s::uuid[]) AS given (workspace_id, op_id)"

_REMEMBERED = f"SELECT workspace_id, op_id FROM archive_operations JOIN {_GIVEN} USING (workspace_id, op_id)"  # noqa: S608 - constants

# A workspace that is not deleted has it as its archive, or may be making it.
_IN_USE = """
EXISTS (SELECT FROM workspaces
        WHERE workspaces.id = remembered.workspace_id AND deleted_at IS NULL
              AND (workspaces.op_id = remembered.op_id
                   OR archive_key = remembered.workspace_id || '/' || remembered.op_id || '/home.tar.zst'))
"""

_OLD_ONES = f"""
SELECT workspace_id, op_id FROM archive_operations AS remembered
WHERE (workspace_id, op_id) > (%(workspace)s, %(op)s) AND begun_at < now() - %(old)s AND NOT {_IN_USE}
ORDER BY workspace_id, op_id LIMIT %(limit)s
"""  # noqa: S608 - constants

_FORGET = f"""
DELETE FROM archive_operations AS remembered USING {_GIVEN}
WHERE remembered.workspace_id = given.workspace_id AND remembered.op_id = given.op_id AND NOT {_IN_USE}
"""  # noqa: S608 - constants

_ADD = f"""
INSERT INTO archive_operations (workspace_id, op_id) SELECT workspace_id, op_id FROM {_GIVEN} ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants


async def since(conn: Connection) -> datetime:
    """When it began to remember."""
    row = await (await conn.execute(_SINCE)).fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


async def remembered(conn: Connection, keys: Collection[ArchiveKey]) -> Collection[ArchiveKey]:
    cursor = await conn.execute(_REMEMBERED, _given(keys))
    return {archive_key(WorkspaceId(workspace), OpId(op)) async for workspace, op in cursor}


async def all_of_them(conn: Connection) -> Collection[ArchiveKey]:
    cursor = await conn.execute("SELECT workspace_id, op_id FROM archive_operations")
    return {archive_key(WorkspaceId(workspace), OpId(op)) async for workspace, op in cursor}


async def old(conn: Connection, after: ArchiveKey | None, limit: int) -> Sequence[ArchiveKey]:
    """Begun days ago, and no workspace that is not deleted names it; in the order of keys."""
    name = None if after is None else parse_archive_key(after)
    given = {
        "workspace": name.workspace_id if name else _ZERO,
        "op": name.op_id if name else _ZERO,
        "old": _OLD,
        "limit": limit,
    }
    cursor = await conn.execute(_OLD_ONES, given)
    return [archive_key(WorkspaceId(workspace), OpId(op)) async for workspace, op in cursor]


async def forget(conn: Connection, keys: Collection[ArchiveKey]) -> None:
    """Whose archive is gone; what a workspace that is not deleted names stays."""
    await conn.execute(_FORGET, _given(keys))


async def add(conn: Connection, keys: Collection[ArchiveKey]) -> None:
    """At an administrator's word: these are ordinary archives from now on, that go when nobody needs them."""
    await conn.execute(_ADD, _given(keys))


def _given(keys: Collection[ArchiveKey]) -> dict[str, list[UUID]]:
    names = [parse_archive_key(key) for key in keys]
    return {"workspaces": [name.workspace_id for name in names], "ops": [name.op_id for name in names]}
