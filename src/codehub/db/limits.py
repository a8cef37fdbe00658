"""How many workspaces run or are to run, counted exactly and without scanning those that do not.

Counting and admitting one more must not be interleaved with another request doing the same: `hold_limits` first, in
the transaction that then writes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL

from codehub.db.locks import AdvisoryLock
from codehub.db.pool import Connection
from codehub.model.limits import SetLimits, Usage
from codehub.model.workspace import UserId, WorkspaceId

_HOLD = "SELECT pg_advisory_xact_lock(%s)"

_INSTANCE_EXISTS = SQL("""(
    conditions -> 'infra.container_ready' -> 'status' = 'true'
    OR conditions -> 'infra.container_ready' ->> 'reason' = 'ContainerNotRunning'
    OR operation IN ('STARTING', 'STOPPING'))
""")

# What counts: desired RUNNING and neither deleted nor ERROR, or an instance that exists. Split by phase into disjoint
# sets, each inside a partial index. The split is complete because phase is derived from the conditions: a container
# that is ready makes its row RUNNING, ERROR or (deleted) DELETING, and a row that is neither RUNNING nor ERROR and
# is to run, or is being started or stopped, is one that the reconcile index holds. (A dead container beside a row that
# is converged is not counted: it uses nothing, and the next sweep removes it.)
_COUNTED = SQL("""(
    SELECT id, owner_user_id, name, created_at FROM workspaces  -- idx_workspaces_running
    WHERE deleted_at IS NULL AND phase = 'RUNNING'
    UNION ALL
    SELECT id, owner_user_id, name, created_at FROM workspaces  -- idx_workspaces_reconcile
    WHERE deleted_at IS NULL AND (phase <> desired_state OR operation <> 'NONE') AND phase NOT IN ('RUNNING', 'ERROR')
      AND (desired_state = 'RUNNING' OR {INSTANCE_EXISTS})
    UNION ALL
    SELECT id, owner_user_id, name, created_at FROM workspaces  -- idx_workspaces_error
    WHERE deleted_at IS NULL AND phase = 'ERROR'
      AND ({INSTANCE_EXISTS}
           OR (desired_state = 'RUNNING' AND recover_request IS NOT NULL  -- it is about to leave ERROR
               AND recover_request ->> 'id' IS DISTINCT FROM recover_handled_id::text))
    UNION ALL
    SELECT id, owner_user_id, name, created_at FROM workspaces  -- idx_workspaces_deleting
    WHERE deleted_at IS NOT NULL AND phase <> 'DELETED' AND {INSTANCE_EXISTS}
) AS counted
""").format(INSTANCE_EXISTS=_INSTANCE_EXISTS)

COUNT_RUNNING = SQL("SELECT count(*) FROM {COUNTED}").format(COUNTED=_COUNTED)

# Of each of these who has any; the row without an owner is everybody's.
COUNT_RUNNING_OF = SQL("""
SELECT owner_user_id, count(*) FROM {COUNTED}
GROUP BY GROUPING SETS ((owner_user_id), ())
HAVING grouping(owner_user_id) = 1 OR owner_user_id = ANY(%s)
""").format(COUNTED=_COUNTED)

# Which of these count.
COUNTED_OF = SQL("SELECT id FROM {COUNTED} WHERE id = ANY(%s)").format(COUNTED=_COUNTED)

# idx_workspaces_owner; what is on its way to the trash still counts.
COUNT_ALL = "SELECT count(*) FROM workspaces WHERE owner_user_id = %s AND deleted_at IS NULL"

# What was set for these; the row without a user is what holds for all.
SET = """
SELECT NULL, max_running_per_user, max_running_global, max_workspaces_per_user FROM limits
UNION ALL
SELECT id, max_running, NULL, max_workspaces FROM users WHERE id = ANY(%s)
"""

CHANGE = """
UPDATE limits SET max_running_per_user = %(per_user)s, max_running_global = %(total)s,
                  max_workspaces_per_user = %(workspaces)s
"""

RUNNING_OF = SQL("""
SELECT owner_user_id, id, name FROM {COUNTED} WHERE owner_user_id = ANY(%s) ORDER BY created_at, id
""").format(COUNTED=_COUNTED)

RUNNING_BY_USER = SQL("""
SELECT owner_user_id, (SELECT username FROM users WHERE users.id = owner_user_id), count(*) FROM {COUNTED}
GROUP BY owner_user_id ORDER BY count(*) DESC, owner_user_id LIMIT %s
""").format(COUNTED=_COUNTED)


@dataclass(frozen=True, slots=True)
class RunningWorkspace:
    """One that counts."""

    id: WorkspaceId
    name: str


@dataclass(frozen=True, slots=True)
class RunningOfUser:
    """How many of one user's count."""

    user_id: UserId
    username: str
    running: int


async def hold_limits(conn: Connection) -> None:
    """Let no other transaction count until this one has ended."""
    await conn.execute(_HOLD, [int(AdvisoryLock.LIMITS)])


async def count_running(conn: Connection) -> int:
    """How many count, of everybody's; to look at, not to admit by."""
    row = await (await conn.execute(COUNT_RUNNING)).fetchone()
    assert row is not None
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Held:
    """What is counted, and what was set, while nobody else counts."""

    usages: Mapping[UserId, Usage]
    counted: Collection[WorkspaceId]  # which of those that were asked about are in that
    limits: Mapping[UserId | None, SetLimits]  # None: for all


async def count_held(conn: Connection, owners: Collection[UserId], ids: Collection[WorkspaceId]) -> Held:
    """`hold_limits`, then what each of these and everybody uses and may use. One round trip."""
    asked = list(set(owners))
    async with conn.pipeline():
        await conn.execute(_HOLD, [int(AdvisoryLock.LIMITS)])
        counts = await conn.execute(COUNT_RUNNING_OF, [asked])
        counted = await conn.execute(COUNTED_OF, [list(ids)])
        limits = await conn.execute(SET, [asked])
    running: dict[UserId | None, int] = dict(await counts.fetchall())
    usages = {owner: Usage(user=running.get(owner, 0), total=running[None]) for owner in owners}
    return Held(usages, {WorkspaceId(row[0]) for row in await counted.fetchall()}, _limits_of(await limits.fetchall()))


async def limits_set(conn: Connection, owners: Collection[UserId] = ()) -> Mapping[UserId | None, SetLimits]:
    """What administrators set, for all (None) and for these."""
    return _limits_of(await (await conn.execute(SET, [list(owners)])).fetchall())


async def change_limits(conn: Connection, wanted: SetLimits) -> None:
    """What holds for all, from the next admission on."""
    await conn.execute(CHANGE, {"per_user": wanted.per_user, "total": wanted.total, "workspaces": wanted.workspaces})


def _limits_of(rows: Sequence[tuple[Any, ...]]) -> Mapping[UserId | None, SetLimits]:
    return {
        user: SetLimits(per_user=per_user, total=total, workspaces=workspaces)
        for user, per_user, total, workspaces in rows
    }


async def count_all(conn: Connection, owner: UserId) -> int:
    """How many `owner` has that are not deleted, in whatever phase."""
    row = await (await conn.execute(COUNT_ALL, [owner])).fetchone()
    assert row is not None
    return int(row[0])


async def running_of(conn: Connection, owners: Collection[UserId]) -> dict[UserId, list[RunningWorkspace]]:
    """What counts of each one's, oldest first: what could be stopped to make room."""
    found: dict[UserId, list[RunningWorkspace]] = {owner: [] for owner in owners}
    cursor = await conn.execute(RUNNING_OF, [list(found)])
    for owner, identity, name in await cursor.fetchall():
        found[owner].append(RunningWorkspace(WorkspaceId(identity), name))
    return found


async def running_by_user(conn: Connection, limit: int) -> Sequence[RunningOfUser]:
    """Who uses most."""
    cursor = await conn.execute(RUNNING_BY_USER, [limit])
    return [RunningOfUser(UserId(identity), username, count) for identity, username, count in await cursor.fetchall()]
