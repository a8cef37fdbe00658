"""Wishes of people, one row at a time: written only if nobody wrote the row since it was read.

One statement for all verbs: whatever the rules (model/wishes.py) made of the row is written together, or not at all.
"""

from dataclasses import replace

from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from codehub.db.listing import STAMP, ShownWorkspace
from codehub.db.pool import Connection
from codehub.db.rows import recover_request_json, storable

# A visit that a proxy reports meanwhile is a write too, and costs another attempt, not the visit.
WRITE = SQL("""
UPDATE workspaces
SET name = %(name)s, description = %(description)s, memo = %(memo)s, image_ref = %(image_ref)s,
    desired_state = %(desired)s::workspace_state, deleted_at = %(deleted_at)s, purged_at = %(purged_at)s,
    recover_request = %(recover)s, keep_awake_until = %(awake)s, standby_ttl_seconds = %(standby_ttl)s,
    archive_ttl_seconds = %(archive_ttl)s, last_access_at = %(accessed)s, asked_by = %(asked_by)s
WHERE id = %(id)s AND {STAMP} = %(stamp)s
RETURNING updated_at, {STAMP}
""").format(STAMP=STAMP)


async def write(conn: Connection, new: ShownWorkspace) -> ShownWorkspace | None:
    """Write what people own of `new`, over the row that it was made from; None when that row has changed since."""
    wish = new.workspace.wish
    arguments = {
        "id": new.workspace.id,
        "stamp": new.stamp,
        "name": new.name,
        "description": new.description,
        "memo": new.memo,
        "image_ref": wish.image_ref,
        "desired": wish.desired_state.value,
        "deleted_at": wish.deleted_at,
        "purged_at": wish.purged_at,
        "recover": None if wish.recover_request is None else Jsonb(recover_request_json(wish.recover_request)),
        "awake": wish.keep_awake_until,
        "standby_ttl": wish.standby_ttl_seconds,
        "archive_ttl": wish.archive_ttl_seconds,
        "accessed": wish.last_access_at,
        "asked_by": storable(wish.asked_by),
    }
    row = await (await conn.execute(WRITE, arguments)).fetchone()
    return None if row is None else replace(new, updated_at=row[0], stamp=row[1])
