"""Two versions at once on one database: either one's API with the other one's coordinator, on the newer schema."""

from pathlib import Path

import psycopg
import pytest

from codehub.db import migrate
from tests.support import eventually
from tests.upgrade.living import becomes, lives, migrated, schema
from tests.upgrade.parts import TODAY, Installation
from tests.upgrade.versions import next_version, previous_version

pytestmark = pytest.mark.timeout(300)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_newer", ["api", "coordinator"])
def test_today_beside_the_next_version(fresh: Installation, folder: Path, is_newer: str) -> None:
    """Both are started when the schema is the next version's already."""
    other = next_version(folder)
    migrated(fresh, other)
    assert schema(fresh) > migrate.newest_version()
    api = fresh.start("api", other if is_newer == "api" else TODAY).is_ready()
    coordinator = fresh.start("coordinator", other if is_newer == "coordinator" else TODAY).is_ready()
    lives(fresh, api)
    migrated(fresh, TODAY)  # does nothing
    assert schema(fresh) > migrate.newest_version()
    for part in (coordinator, api):
        part.stop()


@pytest.mark.exhaustive
def test_a_schema_that_was_contracted_is_refused_in_one_line(fresh: Installation, folder: Path) -> None:
    migrated(fresh, next_version(folder, contracts=True))
    for command in ("api", "coordinator", "migrate"):
        done = TODAY.run(command, **fresh.environment, CODEHUB_PORT="0")
        assert done.returncode == 1
        lines = [line for line in done.stderr.splitlines() if line.startswith("codehub: ")]
        assert len(lines) == 1, done.stderr
        assert f"newer than this CodeHub ({migrate.newest_version()})" in lines[0]


@pytest.mark.exhaustive
def test_the_version_before_while_it_is_replaced(fresh: Installation, folder: Path) -> None:
    """As an upgrade goes: the old one runs, its schema is expanded under it, and part by part makes room."""
    before = previous_version(folder)
    migrated(fresh, before)
    assert schema(fresh) < migrate.newest_version()
    old_api, old_coordinator = (fresh.start(each, before) for each in ("api", "coordinator"))
    old_api.is_ready()
    old_coordinator.is_ready()
    with fresh.client(old_api.url) as client:
        kept = client.create_workspace("kept", desired_state="RUNNING")
        becomes(client, kept.id, "RUNNING")
    migrated(fresh, TODAY)
    assert schema(fresh) == migrate.newest_version()

    lives(fresh, old_api)
    api = fresh.start("api").is_ready()
    lives(fresh, api)  # with the old coordinator
    coordinator = fresh.start("coordinator").is_ready()
    old_coordinator.stop()
    eventually(lambda: fresh.leads(coordinator), "the new one leads")
    lives(fresh, old_api)  # with the new coordinator
    old_api.stop()
    lives(fresh, api)
    with psycopg.connect(fresh.database) as conn:
        assert conn.execute("SELECT phase, error_count FROM workspaces WHERE id = %s", [kept.id]).fetchall() == [
            ("RUNNING", 0)
        ]
    for part in (coordinator, api):
        part.stop()
