"""Wishes of people: a row is written only if nobody wrote it since it was read.

One statement for all verbs: whatever the rules (model/wishes.py) made of a row is written together, or not at all.
Whoever writes several holds them all first, in the order of their ids, like every bulk write, so that two of them
cannot deadlock.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from codehub.db.listing import STAMP, ShownWorkspace
from codehub.db.pool import Connection
from codehub.db.rows import recover_request_json, storable
from codehub.model.workspace import WorkspaceId

HOLD = "SELECT FROM workspaces WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"

# A visit that a proxy reports meanwhile is a write too, and costs another attempt, not the visit.
WRITE = SQL("""
UPDATE workspaces
SET name = %(name)s, description = %(description)s, memo = %(memo)s, tags = %(tags)s,
    is_favorite = %(favorite)s, image_ref = %(image_ref)s,
    desired_state = %(desired)s::workspace_state, deleted_at = %(deleted_at)s, purged_at = %(purged_at)s,
    recover_request = %(recover)s, keep_awake_until = %(awake)s, standby_ttl_seconds = %(standby_ttl)s,
    archive_ttl_seconds = %(archive_ttl)s, last_access_at = %(accessed)s, safe_mode = %(safe_mode)s,
    asked_by = %(asked_by)s
WHERE id = %(id)s AND {STAMP} = %(stamp)s
RETURNING updated_at, {STAMP}
""").format(STAMP=STAMP)


async def hold(conn: Connection, ids: Collection[WorkspaceId]) -> None:
    """Let nobody else write these until this transaction has ended. What is read of them from then on stays true."""
    await conn.execute(HOLD, [list(ids)])


async def write(conn: Connection, news: Sequence[ShownWorkspace]) -> dict[WorkspaceId, ShownWorkspace]:
    """Write what people own of each, over the row that it was made from; those whose row has changed since are not.

    One round trip, however many they are; those who write several `hold` them.
    """
    async with conn.pipeline():
        cursors = [await conn.execute(WRITE, _arguments(new)) for new in news]
    written = {}
    for new, cursor in zip(news, cursors, strict=True):
        row = await cursor.fetchone()
        if row is not None:
            written[new.workspace.id] = replace(new, updated_at=row[0], stamp=row[1])
    return written


def _arguments(new: ShownWorkspace) -> dict[str, Any]:
    wish = new.workspace.wish
    return {
        "id": new.workspace.id,
        "stamp": new.stamp,
        "name": new.name,
        "description": new.description,
        "memo": new.memo,
        "tags": list(new.tags),
        "favorite": new.is_favorite,
        "image_ref": wish.image_ref,
        "desired": wish.desired_state.value,
        "deleted_at": wish.deleted_at,
        "purged_at": wish.purged_at,
        "recover": None if wish.recover_request is None else Jsonb(recover_request_json(wish.recover_request)),
        "awake": wish.keep_awake_until,
        "standby_ttl": wish.standby_ttl_seconds,
        "archive_ttl": wish.archive_ttl_seconds,
        "accessed": wish.last_access_at,
        "safe_mode": wish.safe_mode,
        "asked_by": storable(wish.asked_by),
    }
