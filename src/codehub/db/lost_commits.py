"""Whether the database has lost commits: an asynchronous replica was promoted, or a snapshot took its place (ADR 24).

Each commit of the controller counts itself (statuses.py), so whoever knows of a later one than the row says has seen
the future of this database. That is noted here, and stays until a restore settles the rows (replacing.py).
"""

from dataclasses import dataclass
from datetime import datetime

from codehub.db.pool import Connection

_LOOK = """
SELECT commits, lost_commits, lost_commits_at, (SELECT oid FROM pg_database WHERE datname = current_database()),
       has_function_privilege(to_regprocedure('pg_control_system()'), 'EXECUTE')
FROM leadership
"""
_CLUSTER = "SELECT system_identifier FROM pg_control_system()"
_KNOWN = "SELECT lost_commits_at FROM leadership WHERE epoch = %s FOR UPDATE"
_NOTE = """
UPDATE leadership SET lost_commits = greatest(lost_commits, %s), lost_commits_at = coalesce(lost_commits_at, now())
WHERE epoch = %s RETURNING lost_commits, lost_commits_at
"""

# No operation goes on under its old op_id: it has ended in the world, in whatever way. The archive that it was making
# may have become the home since, so it is not remembered. What a RESTORING or PROVISIONING makes is told by the mark
# of its volume (ADR 23), and a DELETING names its volume: these go on.
_ENDED = "operation IN ('ARCHIVING', 'CREATE_EMPTY_ARCHIVE', 'STARTING', 'STOPPING')"
_FORGET = f"""
DELETE FROM archive_operations AS remembered USING workspaces
WHERE {_ENDED} AND workspaces.id = remembered.workspace_id AND workspaces.op_id = remembered.op_id
      AND workspaces.archive_key IS DISTINCT FROM workspaces.id || '/' || workspaces.op_id || '/home.tar.zst'
"""  # noqa: S608 - constants
_BEGIN_ANEW = f"""
UPDATE workspaces
SET operation = 'NONE', op_id = gen_random_uuid(), op_started_at = NULL, retry_at = NULL, error_count = 0,
    error_reason = NULL, home_ctx = home_ctx || '{{"instance_op": null}}'
WHERE {_ENDED}
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class LostCommits:
    """At least so many, found at that time."""

    count: int
    at: datetime


@dataclass(frozen=True, slots=True)
class CommitCount:
    """How often the controller has committed in this database, as the database knows it."""

    database: str | None  # its name among all databases, the same on each physical replica; None is not told
    commits: int
    lost: LostCommits | None = None


async def read_count(conn: Connection) -> CommitCount:
    row = await (await conn.execute(_LOOK)).fetchone()
    assert row is not None
    commits, lost, lost_at, oid, may_ask = row
    cluster = await (await conn.execute(_CLUSTER)).fetchone() if may_ask else None
    return CommitCount(
        None if cluster is None else f"{cluster[0]}/{oid}",
        commits,
        None if lost_at is None else LostCommits(lost or 0, lost_at),
    )


async def note_lost(conn: Connection, epoch: int, count: int) -> LostCommits | None:
    """That so many are lost; what is known now. None: whoever asks was replaced, and has no say.

    When it is found, operations begin anew. That is done once: later ones began after it.
    """
    known = await (await conn.execute(_KNOWN, [epoch])).fetchone()
    if known == (None,):
        await conn.execute(_FORGET)
        await conn.execute(_BEGIN_ANEW)
    row = await (await conn.execute(_NOTE, [count, epoch])).fetchone()
    return None if row is None else LostCommits(*row)
