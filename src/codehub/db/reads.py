"""What a tick reads: the workspaces that need something, a slice of those that do not, and any by name.

Each query walks partial indexes (0005, 0021), so its cost follows what it returns, not how many workspaces exist.
All of them page by id: give the last id of one page as `after` to get the next.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from psycopg import AsyncCursor
from psycopg.rows import TupleRow
from psycopg.sql import SQL

from codehub.db.pool import Connection
from codehub.db.rows import COLUMNS, workspace_of
from codehub.model.failure import LONGEST_DELAY, LONGEST_PUT_OFF
from codehub.model.workspace import InstanceBackend, Workspace, WorkspaceId

log = logging.getLogger(__name__)

_PAUSES = {"longest": LONGEST_DELAY, "longest_put_off": LONGEST_PUT_OFF}
_BEFORE_ALL = WorkspaceId(UUID(int=0))

# Three disjoint sets, each found through the index named beside it. Left to the sweep, because only time or a person
# will change them: ERROR without an unanswered recovery, the trash that waits for GC, and the pauses of an outage (one
# that ends later than any pause is from before the clock jumped), but for an ARCHIVING that its user wants to leave. So
# are the pauses of a home that could not be archived, unless its user wants the workspace again.
NEEDING_WORK = SQL("""
SELECT {COLUMNS} FROM (
    (SELECT * FROM workspaces  -- idx_workspaces_reconcile
     WHERE deleted_at IS NULL AND (phase <> desired_state OR operation <> 'NONE') AND phase <> 'ERROR'
       AND NOT (error_reason IS NOT DISTINCT FROM 'Unreachable' AND retry_at IS NOT NULL
                AND retry_at > %(now)s AND retry_at <= %(now)s + %(longest)s
                AND NOT (operation = 'ARCHIVING' AND desired_state IN ('STANDBY', 'RUNNING')))
       AND NOT (phase = 'STANDBY' AND operation = 'NONE' AND desired_state NOT IN ('STANDBY', 'RUNNING')
                AND error_reason IS NOT DISTINCT FROM 'ActionFailed'
                AND conditions -> 'policy.healthy' ->> 'reason' IS NOT DISTINCT FROM 'ArchiveFailed'
                AND retry_at IS NOT NULL AND retry_at > %(now)s AND retry_at <= %(now)s + %(longest_put_off)s)
       AND id > %(after)s AND id <> ALL(%(but)s::uuid[])
     ORDER BY id LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM workspaces  -- idx_workspaces_deleting
     WHERE deleted_at IS NOT NULL AND phase <> 'DELETED'
       AND NOT (phase = 'DELETING' AND operation = 'NONE'
                AND conditions -> 'storage.volume_ready' ->> 'reason' IS NOT DISTINCT FROM 'VolumeNotFound'
                AND conditions -> 'infra.container_ready' ->> 'reason' IS NOT DISTINCT FROM 'ContainerNotFound')
       AND NOT (error_reason IS NOT DISTINCT FROM 'Unreachable' AND retry_at IS NOT NULL
                AND retry_at > %(now)s AND retry_at <= %(now)s + %(longest)s)
       AND id > %(after)s AND id <> ALL(%(but)s::uuid[])
     ORDER BY id LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM workspaces  -- idx_workspaces_error
     WHERE deleted_at IS NULL AND phase = 'ERROR'
       AND recover_request IS NOT NULL AND recover_request ->> 'id' IS DISTINCT FROM recover_handled_id::text
       AND id > %(after)s AND id <> ALL(%(but)s::uuid[])
     ORDER BY id LIMIT %(limit)s)
) AS needing
ORDER BY id LIMIT %(limit)s
""").format(COLUMNS=COLUMNS)

# idx_workspaces_sweep: of what is DELETED nothing is left to look at.
SWEEP = SQL("SELECT {COLUMNS} FROM workspaces WHERE phase <> 'DELETED' AND id > %s ORDER BY id LIMIT %s").format(
    COLUMNS=COLUMNS
)

BY_IDS = SQL("SELECT {COLUMNS} FROM workspaces WHERE id = ANY(%s) ORDER BY id").format(COLUMNS=COLUMNS)

# idx_workspaces_ttl_check; its key bounds the scan, since no TTL is shorter than a minute. GREATEST skips NULLs.
TTL_CANDIDATES = SQL("""
SELECT {COLUMNS} FROM workspaces
WHERE deleted_at IS NULL AND phase IN ('RUNNING', 'STANDBY') AND operation = 'NONE' AND desired_state = phase
  AND phase_changed_at < now() - interval '60 seconds'
  AND CASE phase
      WHEN 'RUNNING' THEN standby_ttl_seconds > 0
          AND now() - greatest(last_access_at, phase_changed_at, keep_awake_until)
              > make_interval(secs => standby_ttl_seconds)
      ELSE archive_ttl_seconds > 0 AND now() - phase_changed_at > make_interval(secs => archive_ttl_seconds) END
ORDER BY phase_changed_at LIMIT %s
""").format(COLUMNS=COLUMNS)


# idx_workspaces_ttl_check
SETTLED_ON = SQL("""
SELECT {COLUMNS} FROM workspaces
WHERE deleted_at IS NULL AND phase IN ('RUNNING', 'STANDBY') AND operation = 'NONE' AND desired_state = phase
  AND instance_backend = %s
""").format(COLUMNS=COLUMNS)


async def needing_work(
    conn: Connection,
    now: datetime,
    limit: int,
    after: WorkspaceId | None = None,
    but: Collection[WorkspaceId] = (),
) -> Sequence[Workspace]:
    """Workspaces with a wish, an operation, a deletion or a recovery to attend to, but for those that are busy."""

    async def page(after: WorkspaceId, limit: int) -> AsyncCursor[TupleRow]:
        return await conn.execute(
            NEEDING_WORK, {**_PAUSES, "now": now, "limit": limit, "after": after, "but": list(but)}
        )

    return await _paged(page, after, limit)


async def sweep(conn: Connection, after: WorkspaceId | None, limit: int) -> Sequence[Workspace]:
    """The next slice of all workspaces that are not DELETED, to notice what changed behind our back.

    A slice shorter than `limit` is the last one: begin again with None.
    """

    async def page(after: WorkspaceId, limit: int) -> AsyncCursor[TupleRow]:
        return await conn.execute(SWEEP, [after, limit])

    return await _paged(page, after, limit)


async def by_ids(conn: Connection, ids: Collection[WorkspaceId]) -> Sequence[Workspace]:
    """These workspaces, as far as they exist."""
    cursor = await conn.execute(BY_IDS, [list(ids)])
    return _mapped(await cursor.fetchall())


async def ttl_candidates(conn: Connection, limit: int) -> Sequence[Workspace]:
    """Workspaces whose TTL has run out by the database's clock, longest in their phase first (SPEC section 7)."""
    cursor = await conn.execute(TTL_CANDIDATES, [limit])
    return _mapped(await cursor.fetchall())


async def settled_on(conn: Connection, backend: InstanceBackend) -> Sequence[Workspace]:
    """What runs or stands by on a backend as it should, with nothing going on."""
    cursor = await conn.execute(SETTLED_ON, [backend])
    return _mapped(await cursor.fetchall())


async def _paged(
    page: Callable[[WorkspaceId, int], Awaitable[AsyncCursor[TupleRow]]], after: WorkspaceId | None, limit: int
) -> Sequence[Workspace]:
    """A short page means that there is no more, so the places of unreadable rows are filled from what follows them."""
    found: list[Workspace] = []
    last = after or _BEFORE_ALL
    while len(found) < limit:
        asked = limit - len(found)
        rows = await (await page(last, asked)).fetchall()
        found += _mapped(rows)
        if len(rows) < asked:
            break
        last = WorkspaceId(rows[-1][0])
    return found


def _mapped(rows: Iterable[TupleRow]) -> list[Workspace]:
    """A row that this version cannot read (a newer one wrote it) is left alone; the others are not held up by it."""
    found = []
    for row in rows:
        try:
            found.append(workspace_of(row))
        except Exception as error:  # noqa: BLE001 - whatever is in it, the others are read
            _tell(row[0], f"{type(error).__name__}: {error}")
    return found


@lru_cache(maxsize=1000)
def _tell(identity: object, cause: str) -> None:
    """Once: it is read again at every tick."""
    log.warning("workspace %s cannot be read by this version: %s", identity, cause)
