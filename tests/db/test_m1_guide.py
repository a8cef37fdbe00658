"""M1's guide to M2, followed to any step and interrupted after any: the database migrates as M1's own does."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest

from codehub.db import migrate
from codehub.model.workspace import WorkspaceId
from tests.db.m1_cases import CASES, M1, OLD_KEY
from tests.db.schema import snapshot
from tests.db.test_m1_rows import EVERY, insert
from tests.support import Databases

# As 03-schema has them.
ADD_CONDITIONS = "ALTER TABLE workspaces ADD COLUMN conditions JSONB NOT NULL DEFAULT '{}'"
ADD_PHASE = "ALTER TABLE workspaces ADD COLUMN phase VARCHAR(20) NOT NULL DEFAULT 'PENDING'"
FILL = """
UPDATE workspaces SET
  conditions = jsonb_build_object(
    'storage.volume_ready', jsonb_build_object(
      'status', observed_status IN ('STANDBY', 'RUNNING'),
      'reason', CASE WHEN observed_status IN ('STANDBY', 'RUNNING') THEN 'VolumeProvisioned' ELSE 'VolumeNotFound' END,
      'last_transition_time', observed_at
    ),
    'infra.container_ready', jsonb_build_object(
      'status', observed_status = 'RUNNING',
      'reason', CASE WHEN observed_status = 'RUNNING' THEN 'ContainerRunning' ELSE 'ContainerNotRunning' END,
      'last_transition_time', observed_at
    ),
    'storage.archive_ready', jsonb_build_object(
      'status', archive_key IS NOT NULL,
      'reason', CASE WHEN archive_key IS NOT NULL THEN 'ArchiveUploaded' ELSE 'NoArchive' END,
      'last_transition_time', observed_at
    ),
    'policy.healthy', jsonb_build_object(
      'status', health_status = 'OK',
      'reason', CASE WHEN health_status = 'OK' THEN 'AllConditionsMet' ELSE COALESCE(error_reason, 'Unknown') END,
      'last_transition_time', observed_at
    )
  ),
  phase = CASE
    WHEN deleted_at IS NOT NULL THEN 'DELETED'
    WHEN health_status = 'ERROR' THEN 'ERROR'
    WHEN observed_status = 'RUNNING' THEN 'RUNNING'
    WHEN observed_status = 'STANDBY' THEN 'STANDBY'
    WHEN archive_key IS NOT NULL THEN 'ARCHIVED'
    ELSE 'PENDING'
  END
"""
WIDEN = (
    "ALTER TYPE desired_state_enum ADD VALUE 'ARCHIVED'",
    "ALTER TYPE desired_state_enum ADD VALUE 'DELETED'",
)
DROP_OBSERVED = "ALTER TABLE workspaces DROP COLUMN observed_status"
DROP_HEALTH = "ALTER TABLE workspaces DROP COLUMN health_status"

STATES = {
    "untouched": (),
    "in step 1": (ADD_CONDITIONS,),
    "after step 1": (ADD_CONDITIONS, ADD_PHASE),
    "after step 2": (ADD_CONDITIONS, ADD_PHASE, FILL),
    "in step 3": (ADD_CONDITIONS, ADD_PHASE, FILL, WIDEN[0]),
    "after step 3": (ADD_CONDITIONS, ADD_PHASE, FILL, *WIDEN),
    "in step 4": (ADD_CONDITIONS, ADD_PHASE, FILL, *WIDEN, DROP_OBSERVED),
    "in step 4, the other way round": (ADD_CONDITIONS, ADD_PHASE, FILL, *WIDEN, DROP_HEALTH),
    "after step 4": (ADD_CONDITIONS, ADD_PHASE, FILL, *WIDEN, DROP_OBSERVED, DROP_HEALTH),
}
ROWS: dict[WorkspaceId, M1] = EVERY | {
    WorkspaceId(UUID(int=number)): case for number, (case, _) in enumerate(CASES.values(), start=100)
}

RESULT = """
SELECT id, desired_state, deleted_at, archive_key, operation, op_id, phase, home_ctx, error_reason, error_count,
       observed_at, last_access_at, instance_backend, image_ref,
       conditions #- '{policy.healthy,last_transition_time}'
FROM workspaces ORDER BY id
"""


@contextmanager
def an_m1_database(databases: Databases, rows: dict[WorkspaceId, M1], *steps: str) -> Iterator[str]:
    with databases.one() as url:
        migrate.upgrade(url, "0001")
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("SET timezone = 'UTC'")
            insert(conn, rows)
            conn.execute("DROP TABLE alembic_version")
            for step in steps:
                conn.execute(step)
        yield url


def _migrated(url: str) -> list[tuple[object, ...]]:
    migrate.upgrade(url)
    with psycopg.connect(url) as conn:
        return conn.execute(RESULT).fetchall()


@pytest.fixture(scope="module")
def expected(databases: Databases) -> list[tuple[object, ...]]:
    """What becomes of M1 itself, which test_m1_rows holds to the rules."""
    with an_m1_database(databases, ROWS) as url:
        return _migrated(url)


@pytest.mark.parametrize("steps", STATES.values(), ids=STATES)
def test_every_state_of_the_guide_migrates_as_m1_does(
    databases: Databases, migrated_template: str, expected: list[tuple[object, ...]], steps: tuple[str, ...]
) -> None:
    with an_m1_database(databases, ROWS, *steps) as url:
        found = _migrated(url)
        assert len(found) == len(ROWS)
        assert found == expected
        assert snapshot(url) == snapshot(migrated_template)


HERE, THERE = WorkspaceId(UUID(int=1)), WorkspaceId(UUID(int=2))


def _conditions(*, volume: bool, container: bool = False, healthy: bool = True, message: str | None = None) -> str:
    message = "" if message is None else f', "message": "{message}"'
    facts = {"storage.volume_ready": volume, "infra.container_ready": container, "policy.healthy": healthy}
    return ", ".join(f'"{key}": {{"status": {str(fact).lower()}{message}}}' for key, fact in facts.items())


def _phases(url: str) -> list[tuple[object, ...]]:
    migrate.upgrade(url)
    with psycopg.connect(url) as conn:
        return conn.execute("SELECT phase, home_ctx ->> 'volume' FROM workspaces ORDER BY id").fetchall()


def test_what_was_observed_since_wins_and_what_m1_went_on_writing_does_too(databases: Databases) -> None:
    """M2 writes a message with what it observes; the guide's second step does not."""
    rows = {HERE: M1(observed="STANDBY"), THERE: M1(observed="PENDING", archive_key=OLD_KEY)}
    with an_m1_database(databases, rows, *STATES["after step 3"]) as url:
        with psycopg.connect(url) as conn:
            conn.execute(
                "UPDATE workspaces SET conditions = %s::jsonb WHERE id = %s",
                ["{" + _conditions(volume=True, container=True, message="Container is running") + "}", HERE],
            )
            conn.execute("UPDATE workspaces SET observed_status = 'STANDBY' WHERE id = %s", [THERE])
        assert _phases(url) == [("RUNNING", "live"), ("STANDBY", "live")]


def test_an_error_that_only_the_phase_tells_stays_one(databases: Databases) -> None:
    rows = {HERE: M1(observed="STANDBY", error_reason="Timeout")}
    with an_m1_database(databases, rows, *STATES["after step 4"], "UPDATE workspaces SET phase = 'ERROR'") as url:
        assert _phases(url) == [("ERROR", "live")]


def test_wishes_that_the_guide_made_possible_are_kept(databases: Databases) -> None:
    rows = {HERE: M1(observed="STANDBY"), THERE: M1(observed="STANDBY")}
    with an_m1_database(databases, rows, *STATES["after step 4"]) as url:
        with psycopg.connect(url) as conn:
            conn.execute("UPDATE workspaces SET desired_state = 'ARCHIVED' WHERE id = %s", [HERE])
            conn.execute("UPDATE workspaces SET desired_state = 'DELETED' WHERE id = %s", [THERE])
        migrate.upgrade(url)
        with psycopg.connect(url) as conn:
            found = conn.execute("SELECT desired_state, deleted_at FROM workspaces ORDER BY id").fetchall()
    assert found == [("ARCHIVED", None), ("DELETED", None)]


def test_a_row_that_neither_version_described_is_not_taken_for_a_home(databases: Databases) -> None:
    """Steps 1 and 4 without 2: what its volume holds, the first look at it leaves to a person."""
    rows = {HERE: M1(observed="STANDBY")}
    with an_m1_database(databases, rows, ADD_CONDITIONS, ADD_PHASE, DROP_OBSERVED, DROP_HEALTH) as url:
        assert _phases(url) == [("PENDING", "none")]
