"""How things stand, for whoever looks for what is wrong: one look, cheap at any number of workspaces."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from codehub.db.adoption import AdoptionDue, adoption_of
from codehub.db.locks import AdvisoryLock
from codehub.db.pool import Connection

# idx_workspaces_operation and idx_workspaces_error; the lock belongs to this database alone.
_LOOK = """
SELECT now(),
       EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
               WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()
                     AND (l.classid::bigint << 32) | l.objid::bigint = %(leader)s),
       (SELECT holder FROM leadership),
       (SELECT unknown_resources FROM leadership WHERE unknown_epoch = epoch),
       (SELECT lost_commits FROM leadership),
       (SELECT lost_commits_at FROM leadership),
       (SELECT store_trouble FROM leadership),
       (SELECT adoption_due FROM leadership),
       (SELECT adoption_due_of FROM leadership),
       (SELECT count(*) FROM workspaces
        WHERE operation <> 'NONE' AND deleted_at IS NULL AND op_started_at < now() - make_interval(secs => %(old)s)),
       (SELECT id::text || ' (' || operation || ')' FROM workspaces
        WHERE operation <> 'NONE' AND deleted_at IS NULL AND op_started_at < now() - make_interval(secs => %(old)s)
        ORDER BY op_started_at LIMIT 1),
       (SELECT count(*) FROM workspaces WHERE phase = 'ERROR' AND deleted_at IS NULL),
       (SELECT count(*) FROM workspaces
        WHERE operation IN ('ARCHIVING', 'RESTORING', 'CREATE_EMPTY_ARCHIVE')
              AND error_reason = 'Unreachable' AND deleted_at IS NULL),
       (SELECT conditions->'policy.healthy'->>'message' FROM workspaces
        WHERE operation IN ('ARCHIVING', 'RESTORING', 'CREATE_EMPTY_ARCHIVE')
              AND error_reason = 'Unreachable' AND deleted_at IS NULL
        ORDER BY op_started_at DESC LIMIT 1),
       (SELECT report FROM gc_runs WHERE finished_at IS NOT NULL AND NOT dry_run ORDER BY finished_at DESC LIMIT 1)
"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    now: datetime
    is_led: bool
    holder: str  # who leads, or has led last
    unknown: int | None  # containers and volumes of no workspace, as that leader saw them; None: it has not said
    lost_commits: int | None  # that the database went back by, until a restore settles it …
    lost_commits_at: datetime | None  # … and when that was found
    store_trouble: str | None  # why nothing is deleted from the archive store
    adoption: AdoptionDue | None  # of a restore that has not ended
    stuck: int  # operations that began long ago
    oldest: str | None
    errors: int
    store_waits: int  # operations that move archives and wait for an outage to end
    store_outage: str | None  # what the newest of them met
    gc: dict[str, Any]  # the report of the last collection; empty before the first


async def diagnose(conn: Connection, *, stuck_after_seconds: float) -> Diagnosis:
    row = await (await conn.execute(_LOOK, {"leader": int(AdvisoryLock.LEADER), "old": stuck_after_seconds})).fetchone()
    assert row is not None
    now, is_led, holder, unknown, lost, lost_at, trouble, due, due_of, stuck, oldest, errors, waits, outage, gc = row
    adoption = adoption_of(due, due_of)
    return Diagnosis(
        now, is_led, holder, unknown, lost, lost_at, trouble, adoption, stuck, oldest, errors, waits, outage, gc or {}
    )
