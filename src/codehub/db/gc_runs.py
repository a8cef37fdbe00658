"""Collections of archives: requests of administrators, and reports of every run.

A request that a leader began and did not finish (it died, or lost its place) is taken again by the next one: a
collection that runs twice finds less to do the second time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from codehub.db.pool import Connection
from codehub.db.rows import storable
from codehub.model.workspace import UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRequest:
    """What an administrator asked for."""

    id: UUID
    requested_at: datetime
    dry_run: bool
    override: bool
    unknown_too: bool
    orphans: bool = False  # instances and volumes of no workspace, instead of archives


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRun:
    """A request or a cycle, and what came of it; `requested_by` is None for a cycle that nobody asked for."""

    id: UUID
    requested_by: UserId | None
    requested_by_username: str | None
    requested_at: datetime
    dry_run: bool
    override: bool
    unknown_too: bool
    orphans: bool = False  # instances and volumes of no workspace, instead of archives
    started_at: datetime | None
    finished_at: datetime | None
    report: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class GcPlace:
    """Where a page ends."""

    requested_at: datetime
    id: UUID


_REQUEST = """
INSERT INTO gc_runs (id, requested_by, dry_run, override, unknown_too, orphans)
VALUES (%(id)s, %(user)s, %(dry_run)s, %(override)s, %(unknown_too)s, %(orphans)s)
"""

# idx_gc_runs_waiting
_WAITING = "SELECT count(*) FROM gc_runs WHERE finished_at IS NULL"

_TAKE = """
UPDATE gc_runs SET started_at = now()
WHERE id = (SELECT id FROM gc_runs WHERE finished_at IS NULL ORDER BY requested_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, requested_at, dry_run, override, unknown_too, orphans
"""

_FINISH = "UPDATE gc_runs SET finished_at = now(), report = %s WHERE id = %s AND finished_at IS NULL"

_RECORD = "INSERT INTO gc_runs (id, started_at, finished_at, report) VALUES (%s, %s, now(), %s)"

_PRUNE = "DELETE FROM gc_runs WHERE finished_at < now() - interval '90 days'"

# idx_gc_runs_requested
_PAGE = """
SELECT id, requested_by, (SELECT username FROM users WHERE users.id = requested_by), requested_at, dry_run, override,
       unknown_too, orphans, started_at, finished_at, report
FROM gc_runs
WHERE %(at)s::timestamptz IS NULL OR (requested_at, id) < (%(at)s, %(id)s)
ORDER BY requested_at DESC, id DESC LIMIT %(limit)s
"""


async def request(
    conn: Connection, user: UserId, *, dry_run: bool, override: bool, unknown_too: bool, orphans: bool
) -> UUID:
    """Ask the leader for a collection; NOTIFY tells it."""
    identity = uuid4()
    mode = ("list" if dry_run else "override" if override else "remove") if orphans else None
    asked = {"dry_run": dry_run or orphans, "override": override and not orphans, "unknown_too": unknown_too}
    given = {"id": identity, "user": user, "orphans": mode, **asked}
    await conn.execute(_REQUEST, given)
    return identity


async def waiting(conn: Connection) -> int:
    """How many requests nobody has finished."""
    row = await (await conn.execute(_WAITING)).fetchone()
    return int(row[0]) if row is not None else 0


async def take(conn: Connection) -> GcRequest | None:
    """The oldest request that is not finished; it begins now."""
    row = await (await conn.execute(_TAKE)).fetchone()
    if row is None:
        return None
    identity, requested_at, dry_run, override, unknown_too, orphans = row
    return GcRequest(
        id=identity,
        requested_at=requested_at,
        dry_run=dry_run if orphans is None else orphans == "list",
        override=override or orphans == "override",
        unknown_too=unknown_too,
        orphans=orphans is not None,
    )


async def finish(conn: Connection, identity: UUID, report: Mapping[str, Any]) -> None:
    """What came of a request."""
    await conn.execute(_FINISH, [Jsonb(storable(dict(report))), identity])


async def record(conn: Connection, started_at: datetime, report: Mapping[str, Any]) -> None:
    """What came of a cycle that nobody asked for; and forget what nobody will ask about."""
    await conn.execute(_RECORD, [uuid4(), started_at, Jsonb(storable(dict(report)))])
    await conn.execute(_PRUNE)


async def page(conn: Connection, after: GcPlace | None, limit: int) -> Sequence[GcRun]:
    """The newest first."""
    given = {"at": after and after.requested_at, "id": after and after.id, "limit": limit}
    return [_run_of(row) for row in await (await conn.execute(_PAGE, given)).fetchall()]


def _run_of(row: tuple[Any, ...]) -> GcRun:
    identity, user, username, requested_at, dry_run, override, unknown_too, orphans, *done = row
    started_at, finished_at, report = done
    return GcRun(
        id=identity,
        requested_by=user,
        requested_by_username=username,
        requested_at=requested_at,
        dry_run=dry_run if orphans is None else orphans == "list",
        override=override or orphans == "override",
        unknown_too=unknown_too,
        orphans=orphans is not None,
        started_at=started_at,
        finished_at=finished_at,
        report=report,
    )
