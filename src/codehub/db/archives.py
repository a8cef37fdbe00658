"""What GC needs to know of the rows: which archives somebody still needs.

Nothing is left out for being deleted: a row says of its own archives when they may go.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.sql import SQL

from codehub.db.pool import Connection
from codehub.model.conditions import TERMINAL_ARCHIVE_REASONS
from codehub.model.gc import KnownWorkspace
from codehub.model.workspace import ArchiveKey, WorkspaceId

_BEFORE_ALL = UUID(int=0)
_LOST = sorted(TERMINAL_ARCHIVE_REASONS)
_COLUMNS = SQL("id, archive_key, op_id, deleted_at, purged_at, source_archive")

KNOWN = SQL("SELECT {COLUMNS} FROM workspaces WHERE id > %s ORDER BY id LIMIT %s").format(COLUMNS=_COLUMNS)

# Whose home is in the store alone: the archived, and the trash for as long as GC protects its archives. An archive that
# is known to be lost says nothing of the others.
_HERE = SQL("deleted_at IS NULL AND phase = 'ARCHIVED' AND archive_key IS NOT NULL")
_IN_TRASH = SQL("""
    deleted_at IS NOT NULL AND phase <> 'DELETED' AND purged_at IS NULL AND archive_key IS NOT NULL
    AND deleted_at >= now() - %(retention)s
    AND coalesce(conditions #>> '{storage.archive_ready,reason}', '') <> ALL(%(lost)s)
""")

# idx_workspaces_archived, idx_workspaces_deleting
IN_STORE_ALONE = SQL("""
SELECT id, archive_key FROM (
    (SELECT id, archive_key FROM workspaces WHERE {_HERE} AND id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION ALL
    (SELECT id, archive_key FROM workspaces WHERE {_IN_TRASH} AND id > %(after)s ORDER BY id LIMIT %(limit)s)
) AS them
ORDER BY id LIMIT %(limit)s
""").format(_HERE=_HERE, _IN_TRASH=_IN_TRASH)

IN_STORE_ALONE_OF = SQL("SELECT id, archive_key FROM workspaces WHERE id = ANY(%(ids)s) AND ({} OR {})").format(
    _HERE, _IN_TRASH
)

# The primary key, and idx_workspaces_source: a workspace that is still to be made from one of these archives.
KNOWN_OF = SQL("""
SELECT {COLUMNS} FROM workspaces WHERE id = ANY(%(ids)s)
UNION
SELECT {COLUMNS} FROM workspaces
WHERE deleted_at IS NULL AND source_archive IS NOT NULL AND source_archive = ANY(%(keys)s)
""").format(COLUMNS=_COLUMNS)

# idx_workspaces_purged: nothing is left of it that could still write to the store.
PURGED = SQL("""
SELECT id FROM workspaces
WHERE purged_at IS NOT NULL AND phase <> 'DELETED' AND id > %s AND phase = 'DELETING' AND operation = 'NONE'
      AND conditions #>> '{storage.volume_ready,reason}' = 'VolumeNotFound'
      AND conditions #>> '{infra.container_ready,reason}' = 'ContainerNotFound'
ORDER BY id LIMIT %s
""")


async def purged(conn: Connection, after: WorkspaceId | None, limit: int) -> Sequence[WorkspaceId]:
    """One page of those that their owners deleted for good, and of which only archives are left."""
    cursor = await conn.execute(PURGED, [after or _BEFORE_ALL, limit])
    return [WorkspaceId(identity) for (identity,) in await cursor.fetchall()]


async def known(conn: Connection, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
    """One page of all workspaces, in the order of ids."""
    cursor = await conn.execute(KNOWN, [after or _BEFORE_ALL, limit])
    return [_known_of(row) async for row in cursor]


async def in_store_alone(
    conn: Connection, retention: timedelta, after: WorkspaceId | None, limit: int
) -> Mapping[WorkspaceId, ArchiveKey]:
    """One page of those whose home is in the store alone, in the order of ids. `retention`: of the trash."""
    page = {"retention": retention, "lost": _LOST, "after": after or _BEFORE_ALL, "limit": limit}
    cursor = await conn.execute(IN_STORE_ALONE, page)
    return {WorkspaceId(identity): ArchiveKey(key) async for identity, key in cursor}


async def in_store_alone_of(
    conn: Connection, retention: timedelta, ids: Collection[WorkspaceId]
) -> Mapping[WorkspaceId, ArchiveKey]:
    """Those of these whose home is in the store alone."""
    cursor = await conn.execute(IN_STORE_ALONE_OF, {"retention": retention, "lost": _LOST, "ids": list(ids)})
    return {WorkspaceId(identity): ArchiveKey(key) async for identity, key in cursor}


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
