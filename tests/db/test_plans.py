"""The tick's queries at 100,000 workspaces: each walks its partial index and reads little more than it returns."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL, Composable
from psycopg.types.json import Jsonb

from codehub.db.archives import IN_STORE_ALONE, IN_STORE_ALONE_OF, KNOWN, KNOWN_OF, PURGED
from codehub.db.burying import BURIABLE
from codehub.db.census import COUNT
from codehub.db.limits import COUNT_ALL, COUNT_RUNNING, COUNT_RUNNING_OF
from codehub.db.listing import REMAINING_OF, Filter, Place, page_query
from codehub.db.live import STAMPS
from codehub.db.pool import Connection, Role
from codehub.db.reads import BY_IDS, NEEDING_WORK, SWEEP, TTL_CANDIDATES, needing_work, ttl_candidates
from codehub.db.statuses import WRITE, StatusChange, given, write_statuses
from codehub.db.wishes import EXPIRE, FINISH_DELETIONS, RESTART_IDLE_TIMES, TOUCH_ACCESS, expired_json
from codehub.model.failure import LONGEST_DELAY, LONGEST_PUT_OFF
from codehub.model.ttl import next_transition
from tests.db.conftest import connect_as
from tests.db.support import OWNER
from tests.support import Databases, skip

NOW = datetime(2026, 1, 2, tzinfo=UTC)
START = UUID(int=0)

# Out of 1,000: 900 archived, 60 stopped, 30 deleted for good, and 10 of whatever a busy hour has.
CROWD = """
INSERT INTO users (id, username) SELECT gen_random_uuid(), 'user ' || n FROM generate_series(1, 1000) AS n;
INSERT INTO users (id, username) VALUES ('00000000-0000-0000-0000-000000000001', 'ada');
INSERT INTO workspaces (id, owner_user_id, instance_backend, storage_backend, home_store_key, name, image_ref,
    standby_ttl_seconds, archive_ttl_seconds, phase, desired_state, operation, deleted_at, conditions, phase_changed_at,
    archive_key, created_at)
SELECT id, owners[1 + n % 1001], 'process', 'directory', 'ws-' || id || '-home', 'w', 'ide', 600, 1800,
    phase::workspace_state, desired::workspace_state, operation::workspace_operation,
    CASE WHEN desired = 'DELETED' THEN now() END,
    '{"infra.container_ready": {"status": false, "reason": "ContainerNotFound", "message": "There is no container."},
      "storage.volume_ready": {"status": false, "reason": "VolumeNotFound", "message": "There is no volume."}}',
    -- Some of each were stopped long ago, so that a TTL has something to find.
    now() - CASE WHEN n % 50 = 0 THEN interval '1 day' ELSE interval '1 second' * (n % 600) END,
    CASE WHEN phase IN ('ARCHIVED', 'DELETING') THEN id || '/' || id || '/home.tar.zst' END,
    now() - interval '1 day' - interval '1 minute' * n
FROM (SELECT n, gen_random_uuid() AS id, n % 1000 AS kind FROM generate_series(1, 100000) AS n) AS numbered
CROSS JOIN (SELECT array_agg(id) AS owners FROM users) AS everybody
CROSS JOIN LATERAL (SELECT * FROM (VALUES
    (0, 899, 'ARCHIVED', 'ARCHIVED', 'NONE'), (900, 959, 'STANDBY', 'STANDBY', 'NONE'),
    (960, 989, 'DELETED', 'DELETED', 'NONE'), (990, 992, 'RUNNING', 'RUNNING', 'NONE'),
    (993, 993, 'STANDBY', 'RUNNING', 'STARTING'), (994, 994, 'RUNNING', 'STANDBY', 'STOPPING'),
    (995, 995, 'PENDING', 'RUNNING', 'NONE'), (996, 997, 'ERROR', 'RUNNING', 'NONE'),
    (998, 998, 'DELETING', 'DELETED', 'NONE'), (999, 999, 'DELETING', 'DELETED', 'DELETING')
) AS share (lowest, highest, phase, desired, operation) WHERE kind BETWEEN lowest AND highest) AS state;
INSERT INTO archive_operations (workspace_id, op_id) SELECT id, gen_random_uuid() FROM workspaces
WHERE phase = 'ARCHIVED';
"""


@pytest.fixture(scope="module")
def crowd(databases: Databases, migrated_template: str) -> Iterator[str]:
    with databases.one(migrated_template) as url:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("SET session_replication_role = replica")  # no triggers: nobody listens
            conn.execute(CROWD)
            conn.execute("VACUUM ANALYZE")
        yield url


@pytest.fixture(scope="module")
async def conn(crowd: str) -> AsyncIterator[Connection]:
    async with await connect_as(crowd, Role.CONTROLLER) as connection:
        yield connection


OPERATIONS = SQL("SELECT count(*) FROM workspaces WHERE deleted_at IS NULL AND operation <> 'NONE'")
DELETING = SQL("SELECT id FROM workspaces WHERE deleted_at IS NOT NULL AND phase <> 'DELETED' ORDER BY id LIMIT 100")
ERRORS = SQL("SELECT count(*) FROM workspaces WHERE deleted_at IS NULL AND phase = 'ERROR'")
RUNNING = SQL("SELECT count(*) FROM workspaces WHERE deleted_at IS NULL AND phase = 'RUNNING'")
RUNNING_OF = SQL(
    "SELECT count(*) FROM workspaces WHERE deleted_at IS NULL AND phase = 'RUNNING' AND owner_user_id = %s"
)
ARCHIVED = SQL("SELECT id FROM workspaces WHERE deleted_at IS NULL AND phase = 'ARCHIVED' ORDER BY id LIMIT 100")
HALFWAY = Place(datetime.now(UTC) - timedelta(minutes=50_000), UUID(int=0))
COUNTING = {"idx_workspaces_running", "idx_workspaces_reconcile", "idx_workspaces_error", "idx_workspaces_deleting"}

# Two indexes hold exactly the running workspaces; either will do where the owner does not matter. Where few are gone,
# so will those that have everybody.
ALIKE = {
    "idx_workspaces_user_running": "idx_workspaces_running",
    "idx_workspaces_owner": "idx_workspaces_owner_here",
    "idx_workspaces_created": "idx_workspaces_created_here",
    "workspaces_pkey": "idx_workspaces_sweep",
}

PAUSES = {"longest": LONGEST_DELAY, "longest_put_off": LONGEST_PUT_OFF}
IN_STORE = {"retention": timedelta(days=7), "lost": ["ArchiveNotFound"], "after": START, "limit": 20}

# query, arguments, the indexes it must walk (and no other), the most blocks it may read
LATER = datetime.now(UTC) + timedelta(hours=1)  # than whatever these tests write
QUERIES: dict[str, tuple[Composable, Any, set[str], int]] = {
    "needing_work": (
        NEEDING_WORK,
        {
            "now": NOW,
            "longest": LONGEST_DELAY,
            "longest_put_off": LONGEST_PUT_OFF,
            "after": START,
            "limit": 1000,
            "but": [],
        },
        {"idx_workspaces_reconcile", "idx_workspaces_deleting", "idx_workspaces_error"},
        2000,
    ),
    "ttl_candidates": (TTL_CANDIDATES, [100], {"idx_workspaces_ttl_check"}, 3000),
    "count_running": (COUNT_RUNNING, [], COUNTING, 2000),
    "count_running_of": (COUNT_RUNNING_OF, [[OWNER]], COUNTING, 2000),
    "known": (KNOWN, [START, 500], {"workspaces_pkey"}, 1000),
    "known_of": (KNOWN_OF, {"ids": [START], "keys": ["k"]}, {"workspaces_pkey", "idx_workspaces_source"}, 20),
    "in store alone": (IN_STORE_ALONE, IN_STORE, {"idx_workspaces_archived", "idx_workspaces_deleting"}, 300),
    "in store alone, of": (IN_STORE_ALONE_OF, {**IN_STORE, "ids": [START]}, {"idx_workspaces_sweep"}, 10),
    "purged": (PURGED, [START, 100], {"idx_workspaces_purged"}, 20),
    "buriable": (
        BURIABLE,
        [datetime.now(UTC) + timedelta(hours=1), 500],
        {"idx_workspaces_gone", "archive_operations_pkey"},
        12_000,
    ),
    "sweep": (SWEEP, [START, 500], {"idx_workspaces_sweep"}, 1000),
    "by_ids": (BY_IDS, [[START]], {"workspaces_pkey"}, 10),
    "operations": (OPERATIONS, [], {"idx_workspaces_operation"}, 300),
    "deleting": (DELETING, [], {"idx_workspaces_deleting"}, 300),
    "errors": (ERRORS, [], {"idx_workspaces_error"}, 300),
    "running": (RUNNING, [], {"idx_workspaces_running"}, 600),
    "running of one user": (RUNNING_OF, [OWNER], {"idx_workspaces_user_running"}, 10),
    "archived": (ARCHIVED, [], {"idx_workspaces_archived"}, 300),
    "a user's list": (*page_query(Filter(owner=OWNER), None, 51), {"idx_workspaces_owner_here"}, 150),
    "a user's list, further on": (*page_query(Filter(owner=OWNER), HALFWAY, 51), {"idx_workspaces_owner_here"}, 150),
    "what a user has left": (SQL(REMAINING_OF), [OWNER], {"idx_workspaces_owner_here"}, 2000),
    "everybody's": (*page_query(Filter(), None, 51), {"idx_workspaces_created_here"}, 150),
    "everybody's, further on": (*page_query(Filter(), HALFWAY, 51), {"idx_workspaces_created_here"}, 150),
}


NOTHING_FOUND = ("by_ids", "known_of", "purged", "in store alone, of")  # by these arguments

# SPEC section 3, in the words that PostgreSQL uses for it.
_HERE = "(deleted_at IS NULL) AND"
PREDICATES = {
    "idx_workspaces_ttl_check": f"{_HERE} (phase = ANY (RUNNING, STANDBY)) AND (operation = NONE)",
    "idx_workspaces_reconcile": f"{_HERE} ((phase <> desired_state) OR (operation <> NONE))",
    "idx_workspaces_operation": f"{_HERE} (operation <> NONE)",
    "idx_workspaces_deleting": "(deleted_at IS NOT NULL) AND (phase <> DELETED)",
    "idx_workspaces_user_running": f"{_HERE} (phase = RUNNING)",
    "idx_workspaces_running": f"{_HERE} (phase = RUNNING)",
    "idx_workspaces_error": f"{_HERE} (phase = ERROR)",
    "idx_workspaces_archived": f"{_HERE} (phase = ARCHIVED)",
    # Beyond the specification: what is gone, and all the rest without it.
    "idx_workspaces_gone": "phase = DELETED",
    "idx_workspaces_sweep": "phase <> DELETED",
    "idx_workspaces_purged": "(purged_at IS NOT NULL) AND (phase <> DELETED)",
    "idx_workspaces_owner_here": "deleted_at IS NULL",
    "idx_workspaces_created_here": "deleted_at IS NULL",
    # For GC's last look.
    "idx_workspaces_source": f"{_HERE} (source_archive IS NOT NULL)",
}


async def test_the_partial_indexes_are_those_of_the_specification(conn: Connection) -> None:
    rows = await conn.execute(
        """SELECT indexrelid::regclass::text, pg_get_expr(indpred, indrelid) FROM pg_index
           WHERE indrelid = 'workspaces'::regclass AND indpred IS NOT NULL"""
    )
    cast = re.compile(r"'|::\w+(\[\])?|ARRAY\[|\]")
    found = {name: cast.sub("", predicate)[1:-1] for name, predicate in await rows.fetchall()}
    assert found == PREDICATES


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def _explain(conn: Connection, options: str, query: Composable, arguments: Any) -> dict[str, Any]:
    explain = SQL("EXPLAIN ({}, FORMAT JSON) ").format(SQL(options))
    row = await (await conn.execute(explain + query, arguments)).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


# One user's, who has made and deleted one after the other for years.
GONE = f"""
INSERT INTO users (id, username) VALUES ('{OWNER}', 'ada');
INSERT INTO workspaces (id, owner_user_id, instance_backend, storage_backend, home_store_key, name, image_ref,
    standby_ttl_seconds, archive_ttl_seconds, phase, desired_state, deleted_at, purged_at, created_at)
SELECT id, '{OWNER}', 'process', 'directory', 'ws-' || id || '-home', 'w', 'ide', 600, 1800, state, state, gone, gone,
    now() - interval '1 day' + interval '1 second' * n
FROM (SELECT n, gen_random_uuid() AS id, CASE WHEN n > 100 THEN now() END AS gone,
             (CASE WHEN n > 100 THEN 'DELETED' ELSE 'ARCHIVED' END)::workspace_state AS state
      FROM generate_series(1, 20000) AS n) AS numbered;
"""

WHATEVER_IS_GONE: dict[str, tuple[Composable, Any]] = {
    "sweep": (SWEEP, [START, 500]),
    "a user's list": page_query(Filter(owner=OWNER), None, 51),
    "everybody's": page_query(Filter(), None, 51),
    "everybody's trash": page_query(Filter(deleted=True), None, 51),
    "streams": (SQL(STAMPS), [[OWNER]]),
    "a user's number": (SQL(COUNT_ALL), [OWNER]),
    "census": (SQL(COUNT), None),
    "idle times": (SQL(RESTART_IDLE_TIMES), {"jump": timedelta(days=1)}),
}


@pytest.fixture(scope="module")
async def mostly_gone(databases: Databases, migrated_template: str) -> AsyncIterator[Connection]:
    with databases.one(migrated_template) as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await conn.execute("SET session_replication_role = replica")
            await conn.execute(GONE)
            await conn.execute("VACUUM ANALYZE")
            yield conn


@pytest.mark.parametrize("name", WHATEVER_IS_GONE)
async def test_workspaces_that_are_gone_cost_nothing(mostly_gone: Connection, name: str) -> None:
    """A hundred are there and 19,900 were; each of these is asked all the time."""
    plan = await _explain(mostly_gone, "ANALYZE, BUFFERS", *WHATEVER_IS_GONE[name])
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 150, plan


@pytest.mark.parametrize("options", ["COSTS", "GENERIC_PLAN"])
@pytest.mark.parametrize("name", QUERIES)
async def test_the_query_walks_its_index(conn: Connection, name: str, options: str) -> None:
    """Planned for these arguments, and (after some executions of a prepared statement) for any."""
    if options == "GENERIC_PLAN" and conn.info.server_version < 160000:
        skip("PostgreSQL 16, the first that can show a generic plan", "no CODEHUB_TEST_DATABASE_URL")
    query, arguments, indexes, _ = QUERIES[name]
    plan = await _explain(conn, options, query, arguments)
    assert not [node for node in _nodes(plan) if node["Node Type"] == "Seq Scan"], plan
    walked = {node["Index Name"] for node in _nodes(plan) if "Index Name" in node}
    assert walked == indexes or {ALIKE.get(index, index) for index in walked} == indexes


@pytest.mark.parametrize("name", QUERIES)
async def test_the_query_reads_little(conn: Connection, name: str) -> None:
    query, arguments, _, most_blocks = QUERIES[name]
    plan = await _explain(conn, "ANALYZE, BUFFERS", query, arguments)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= most_blocks
    assert plan["Actual Rows"] > 0 or name in NOTHING_FOUND


async def test_bulk_writes_look_each_row_up_once(conn: Connection) -> None:
    """Neither scans the table, nor compares every change with every row."""
    found = await needing_work(conn, NOW, 1000)
    changes = Jsonb([given(StatusChange(each, each.status)) for each in found])
    await _looks_each_row_up_once(conn, WRITE, {"epoch": 0, "after": 0, "changes": changes})


async def test_bulk_wishes_look_each_row_up_once(crowd: str) -> None:
    async with await connect_as(crowd, Role.API) as api:
        expired = [(each, next_transition(each)) for each in await ttl_candidates(api, 1000)]
        assert len(expired) > 100
        ids = [was.id for was, _ in expired]
        rows = Jsonb([expired_json(was, transition) for was, transition in expired if transition])
        await _looks_each_row_up_once(api, EXPIRE, {"expired": rows})
        await _looks_each_row_up_once(api, TOUCH_ACCESS, {"ids": ids, "ages": [0.0] * len(ids)})
        await _looks_each_row_up_once(api, FINISH_DELETIONS, [ids])


async def _looks_each_row_up_once(conn: Connection, statement: str, arguments: Any) -> None:
    async with conn.transaction(force_rollback=True):
        plan = await _explain(conn, "ANALYZE", SQL(statement), arguments)
    walked = {node["Index Name"] for node in _nodes(plan) if "Index Name" in node}
    assert "workspaces_pkey" in walked
    assert walked <= {"workspaces_pkey", "idx_workspaces_sweep"}  # both by id
    for node in _nodes(plan):
        assert (node["Node Type"], node.get("Relation Name")) != ("Seq Scan", "workspaces")
        assert "Rows Removed by Join Filter" not in node


async def test_a_tick_of_this_crowd_is_quick(conn: Connection, record_property: Any) -> None:
    """Generous bounds: they catch a plan that went wrong, not a slow machine."""
    started = time.perf_counter()
    found = await needing_work(conn, NOW, 5000)
    read_seconds = time.perf_counter() - started
    assert len(found) == 400
    changes = [StatusChange(each, each.status) for each in found]
    started = time.perf_counter()
    assert len((await write_statuses(conn, 0, changes)).ids) == 400
    write_seconds = time.perf_counter() - started
    record_property("read_seconds", read_seconds)
    record_property("write_seconds", write_seconds)
    assert read_seconds < 2
    assert write_seconds < 5
