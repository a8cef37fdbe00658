"""Migrations expand first and contract later: what takes something away says which version does without it (ADR 11)."""

import psycopg
import pytest
from alembic.script import ScriptDirectory

from codehub.db import migrate
from codehub.db.migrations import BASELINE
from tests.support import Databases
from tests.upgrade.expanding import broken, things

SCRIPT = ScriptDirectory(str(migrate.MIGRATIONS))
REVISIONS = {revision.revision: revision for revision in SCRIPT.walk_revisions()}
JUDGED = sorted(name for name in REVISIONS if name > BASELINE)


@pytest.mark.parametrize("name", JUDGED)
def test_a_migration_leaves_alone_whoever_does_not_know_of_it(name: str, empty_database: str) -> None:
    mark = getattr(REVISIONS[name].module, "contract_after", None)
    migrate.upgrade(empty_database, str(REVISIONS[name].down_revision))
    before = things(empty_database)
    migrate.upgrade(empty_database, name)
    found = broken(before, things(empty_database))
    if mark is None:
        assert not found, f"{name} must expand only, or say contract_after: {found}"
    else:
        assert found, f"{name} contracts nothing: it needs no contract_after"
        assert mark in REVISIONS
        assert mark < name


def test_the_floor_is_what_the_marks_say(database: str) -> None:
    with psycopg.connect(database) as conn:
        found = conn.execute("SELECT version FROM schema_floor").fetchall()
    marks = [getattr(revision.module, "contract_after", BASELINE) for revision in REVISIONS.values()]
    assert found == [(max(marks),)]


REFUSED = (
    "DROP TABLE samples",
    "ALTER TABLE samples RENAME TO figures",
    "ALTER TABLE tokens DROP COLUMN parent_id",
    "ALTER TABLE workspaces RENAME COLUMN memo TO notes",
    "ALTER TABLE workspaces ALTER COLUMN memo SET NOT NULL",
    "ALTER TABLE workspaces ALTER COLUMN name DROP NOT NULL",
    "ALTER TABLE workspaces ALTER COLUMN asked_by DROP DEFAULT",
    "ALTER TABLE samples ALTER COLUMN running TYPE bigint",
    "ALTER TABLE samples ADD COLUMN paused integer NOT NULL",
    "ALTER TABLE samples ADD CONSTRAINT samples_few CHECK (running < 10)",
    "CREATE UNIQUE INDEX idx_samples_running ON samples (running)",
    "DROP INDEX idx_tokens_parent",
    "DROP TRIGGER gc_runs_notify_new ON gc_runs",
    "REVOKE SELECT ON samples FROM codehub_api",
    "REVOKE UPDATE (last_seen_at) ON sessions FROM codehub_proxy",
)
ACCEPTED = (
    "CREATE TABLE figures (id integer PRIMARY KEY, name text NOT NULL UNIQUE)",
    "ALTER TABLE samples ADD COLUMN paused integer",
    "ALTER TABLE samples ADD COLUMN paused integer NOT NULL DEFAULT 0",
    "CREATE INDEX idx_samples_running ON samples (running)",
    "GRANT INSERT ON samples TO codehub_api",
    "GRANT UPDATE (running) ON samples TO codehub_controller",
    "UPDATE schema_floor SET version = version",
)


@pytest.mark.parametrize("statement", REFUSED)
def test_what_an_older_version_stumbles_over_is_seen(
    statement: str, databases: Databases, migrated_template: str
) -> None:
    assert _judged(statement, databases, migrated_template)


@pytest.mark.parametrize("statement", ACCEPTED)
def test_what_no_older_version_notices_is_accepted(
    statement: str, databases: Databases, migrated_template: str
) -> None:
    assert not _judged(statement, databases, migrated_template)


def _judged(statement: str, databases: Databases, template: str) -> list[str]:
    with databases.one(template) as url:
        before = things(url)
        with psycopg.connect(url) as conn:
            conn.execute(statement.encode())
        return broken(before, things(url))
