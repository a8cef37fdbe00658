"""Figures over time for administrators: from samples, from the reports of collections, and from the history.

Each is a series of at most a hundred or so points, put together by the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from codehub.db.pool import Connection
from codehub.model.workspace import Operation, Phase


@dataclass(frozen=True, slots=True)
class Phases:
    """Workspaces in each phase at about this time; averages, where several samples became one point."""

    at: datetime
    running: float
    standby: float
    archived: float
    pending: float
    error: float


@dataclass(frozen=True, slots=True)
class Stored:
    """What the archive store held when it was last listed."""

    at: datetime
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Durations:
    """How long an operation took that ended well about this time."""

    at: datetime
    count: int
    p50_ms: float
    p95_ms: float


_BIN = "date_bin(%(step)s, at, 'epoch'::timestamptz)"

_PHASES = f"""
SELECT {_BIN} AS at, avg(running)::float8 AS running, avg(standby)::float8 AS standby,
       avg(archived)::float8 AS archived, avg(pending)::float8 AS pending, avg(error)::float8 AS error
FROM samples WHERE at > now() - %(lasting)s GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - constants

# idx_gc_runs_requested; a run that failed has an error and no counts.
_STORED = """
SELECT finished_at AS at, (report->>'found')::bigint AS count, (report->>'bytes')::bigint AS bytes
FROM gc_runs
WHERE requested_at > now() - %(lasting)s AND report ? 'found' AND report ? 'bytes'
ORDER BY finished_at
"""

# idx_workspace_history_at finds what ended; idx_workspace_history_workspace the line before, which says what it was.
_DURATIONS = f"""
SELECT {_BIN} AS at, count(*) AS count,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) AS p95_ms
FROM workspace_history AS ended
WHERE at > now() - %(lasting)s AND duration_ms IS NOT NULL AND error_reason IS NULL
  AND phase = %(reached)s::workspace_state AND operation <> %(operation)s::workspace_operation
  AND (SELECT before.operation FROM workspace_history AS before
       WHERE before.workspace_id = ended.workspace_id AND (before.at, before.id) < (ended.at, ended.id)
       ORDER BY before.at DESC, before.id DESC LIMIT 1) = %(operation)s::workspace_operation
GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - constants

_REACHED: Mapping[Operation, Phase] = {Operation.STARTING: Phase.RUNNING, Operation.RESTORING: Phase.STANDBY}


async def phases(conn: Connection, lasting: timedelta, step: timedelta) -> Sequence[Phases]:
    async with conn.cursor(row_factory=class_row(Phases)) as cursor:
        await cursor.execute(_PHASES, {"lasting": lasting, "step": step})
        return await cursor.fetchall()


async def stored(conn: Connection, lasting: timedelta) -> Sequence[Stored]:
    async with conn.cursor(row_factory=class_row(Stored)) as cursor:
        await cursor.execute(_STORED, {"lasting": lasting})
        return await cursor.fetchall()


async def durations(conn: Connection, operation: Operation, lasting: timedelta, step: timedelta) -> Sequence[Durations]:
    """Of STARTING or RESTORING."""
    given = {"lasting": lasting, "step": step, "operation": operation, "reached": _REACHED[operation]}
    async with conn.cursor(row_factory=class_row(Durations)) as cursor:
        await cursor.execute(_DURATIONS, given)
        return await cursor.fetchall()
