"""Going back by a backup, as docs/upgrade.md advises it: also after the newer version has contracted the schema."""

from pathlib import Path

import pytest

from codehub.db import migrate
from tests.upgrade.living import becomes, lives, migrated, schema
from tests.upgrade.parts import TODAY, Installation, Version
from tests.upgrade.versions import next_version

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300)]


def worked(version: Version, here: Installation, *words: str) -> str:
    done = version.run(*words, **here.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def archived(here: Installation, version: Version, name: str) -> str:
    """A workspace that has a home in the archive store, made by this version's parts, which are stopped again."""
    api, coordinator = here.start("api", version).is_ready(), here.start("coordinator", version).is_ready()
    with here.client(api.url) as client:
        made = client.create_workspace(name, desired_state="RUNNING")
        becomes(client, made.id, "RUNNING")
        client.set_state(made.id, "ARCHIVED")
        becomes(client, made.id, "ARCHIVED")
    for part in (coordinator, api):
        part.stop()
    return str(made.id)


@pytest.mark.parametrize("by", ["today", "next"])
def test_the_backup_of_before_replaces_a_contracted_schema(fresh: Installation, folder: Path, by: str) -> None:
    file, newer = str(folder / "before.backup"), next_version(folder, contracts=True)
    migrated(fresh, TODAY)
    kept = archived(fresh, TODAY, "kept")
    worked(TODAY, fresh, "backup", file)
    migrated(fresh, newer)
    archived(fresh, newer, "since")
    contracted = schema(fresh)
    assert TODAY.run("migrate", **fresh.environment).returncode == 1

    version = TODAY if by == "today" else newer
    said = worked(version, fresh, "restore", file, "--force", "--yes")
    assert "1 workspaces" in said
    assert "1 archives are of workspaces that the database does not know" in said
    assert schema(fresh) == (migrate.newest_version() if by == "today" else contracted)
    api, coordinator = fresh.start("api", version).is_ready(), fresh.start("coordinator", version).is_ready()
    with fresh.client(api.url) as client:
        assert [each.name for each in client.workspaces()] == ["kept"]
        client.set_state(kept, "RUNNING")
        becomes(client, kept, "RUNNING")
    lives(fresh, api)
    for part in (coordinator, api):
        part.stop()


def test_going_back_on_an_expanded_schema_and_its_backup(fresh: Installation, folder: Path) -> None:
    """The older version needs no restore, says what it found, and can restore what it backs up there."""
    file = str(folder / "expanded.backup")
    migrated(fresh, next_version(folder))
    expanded = schema(fresh)
    said = worked(TODAY, fresh, "migrate")
    ours = migrate.newest_version()
    assert said == (
        f"The database is at schema version {expanded}, newer than this CodeHub ({ours}) and fit for it: "
        "it is left as it is.\n"
    )
    archived(fresh, TODAY, "kept")
    worked(TODAY, fresh, "backup", file)
    worked(TODAY, fresh, "restore", file, "--force", "--yes")
    assert schema(fresh) == expanded
    api, coordinator = fresh.start("api").is_ready(), fresh.start("coordinator").is_ready()
    lives(fresh, api)
    for part in (coordinator, api):
        part.stop()
