"""Rows of workspaces that were deleted long ago, and of which nothing is left, leave the table (revision 0032)."""

from datetime import datetime

from psycopg.sql import SQL

from codehub.db.pool import Connection

# idx_workspaces_gone, and the primary key of archive_operations: GC forgets an operation once its archive is gone. Not
# NOT EXISTS, for which everything that is remembered would be read.
BURIABLE = SQL("""
SELECT id FROM workspaces
WHERE phase = 'DELETED' AND phase_changed_at < %s
      AND (SELECT op_id FROM archive_operations WHERE workspace_id = workspaces.id LIMIT 1) IS NULL
ORDER BY phase_changed_at LIMIT %s
""")
_BURY = "SELECT bury_workspaces(%s, %s)"


async def bury(conn: Connection, before: datetime, limit: int) -> int:
    """Up to `limit` of those that were gone before that moment; how many."""
    ids = [identity for (identity,) in await (await conn.execute(BURIABLE, [before, limit])).fetchall()]
    if not ids:
        return 0
    row = await (await conn.execute(_BURY, [ids, before])).fetchone()
    assert row is not None
    return int(row[0])
