"""Which backup goes into which database: what counts is whether this version can use the backup's schema."""

import io
import json
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory
from psycopg.conninfo import make_conninfo

from codehub.backup import programs
from codehub.backup.restoring import restore
from codehub.db import backups, foreign, migrate, replacing
from codehub.db.migrations import MARK
from codehub.db.pool import Connection
from codehub.errors import StartError
from tests.backup.support import back_up, rows_of
from tests.db.support import add_workspace

NAMES = "SELECT name FROM workspaces ORDER BY name"
# As a newer version leaves it: a table more, something that this version needs renamed, and the floor raised.
CONTRACTED = f"""
CREATE TABLE of_next (id uuid REFERENCES workspaces (id));
COMMENT ON TABLE of_next IS '{MARK}';
ALTER TABLE samples RENAME COLUMN pending TO waiting;
UPDATE alembic_version SET version_num = '9999';
UPDATE schema_floor SET version = '9998';
"""
EXPANDED = f"""
CREATE TABLE of_next (id uuid REFERENCES workspaces (id));
COMMENT ON TABLE of_next IS '{MARK}';
UPDATE alembic_version SET version_num = '9999';
"""

# Of each kind one, a sequence that is its table's own, and an extension with routines, a type and more.
OF_EVERY_KIND = """
CREATE TABLE some_table (id bigint GENERATED ALWAYS AS IDENTITY, other serial);
CREATE VIEW some_view AS SELECT id FROM some_table;
CREATE MATERIALIZED VIEW some_rows AS SELECT id FROM some_table;
CREATE SEQUENCE some_numbers;
CREATE FUNCTION some_routine() RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE TYPE some_enum AS ENUM ('a');
CREATE DOMAIN some_domain AS text;
CREATE EXTENSION pg_stat_statements;
"""


def change(database: str, statements: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute(statements.encode())


def rewrite(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """The same backup with another manifest."""
    with tarfile.open(path) as tar:
        parts = [(member, tar.extractfile(member).read()) for member in tar.getmembers()]  # type: ignore[union-attr]  # all are files
    manifest = json.loads(parts[0][1])
    edit(manifest)
    parts[0] = (parts[0][0], json.dumps(manifest).encode())
    with tarfile.open(path, "w") as tar:
        for member, content in parts:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


async def test_over_a_schema_that_was_contracted_since(owner: Connection, database: str, path: Path) -> None:
    await add_workspace(owner, name="kept")
    await back_up(path, database)
    change(database, CONTRACTED)
    with pytest.raises(StartError, match="newer than this CodeHub"):
        migrate.upgrade(database)
    await restore(path, database, force=True)
    assert migrate.schema_version(database) == migrate.newest_version()
    migrate.require_newest(database)
    assert rows_of(database, NAMES) == [("kept",)]
    assert rows_of(database, "SELECT to_regclass('of_next')") == [(None,)]


async def test_over_a_database_that_cannot_be_migrated(
    owner: Connection, database: str, empty_database: str, path: Path
) -> None:
    """What is in the way of a migration is about to go."""
    await add_workspace(owner, name="kept")
    await back_up(path, database)
    migrate.upgrade(empty_database, "0010")
    change(empty_database, "ALTER TABLE tokens ADD COLUMN parent_id uuid")  # as 0011 wants to
    with pytest.raises(StartError, match="could not be migrated"):
        migrate.upgrade(empty_database)
    await restore(path, empty_database, force=True)
    assert rows_of(empty_database, NAMES) == [("kept",)]


async def test_an_older_version_restores_what_it_backed_up_on_an_expanded_schema(
    owner: Connection, database: str, second: str, path: Path
) -> None:
    await add_workspace(owner, name="kept")
    change(database, EXPANDED)
    made = await back_up(path, database)
    assert (made.manifest.schema_version, made.manifest.schema_floor) == ("9999", "0014")
    for target in (second, database):
        await restore(path, target, force=True)
        assert migrate.schema_version(target) == "9999"
        migrate.require_newest(target)
        assert rows_of(target, NAMES) == [("kept",)]


async def test_a_contracted_one_is_refused_and_so_is_one_that_does_not_say(
    owner: Connection, database: str, second: str, path: Path, tmp_path: Path
) -> None:
    await add_workspace(owner)
    change(database, EXPANDED)
    await back_up(path, database)
    rewrite(path, lambda manifest: manifest.pop("schema_floor"))
    with pytest.raises(StartError, match="schema version 9999, newer than this CodeHub"):
        await restore(path, second, force=True)
    change(database, "UPDATE schema_floor SET version = '9998'")
    await back_up(tmp_path / "contracted", database)
    with pytest.raises(StartError, match="schema version 9999, newer than this CodeHub"):
        await restore(tmp_path / "contracted", second, force=True)
    assert migrate.schema_version(second) is None


async def test_a_manifest_of_another_version_is_read(owner: Connection, database: str, second: str, path: Path) -> None:
    """From before there was a floor, and with something that is still to come."""
    await add_workspace(owner, name="kept")
    await back_up(path, database)

    def edit(manifest: dict[str, Any]) -> None:
        del manifest["schema_floor"]
        manifest["of_next"] = True

    rewrite(path, edit)
    await restore(path, second, force=False)
    assert rows_of(second, NAMES) == [("kept",)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": []},
        {"counts": {"users": "many"}},
        {"made_at": "2026-11-15T00:00:00"},
        {"namespace": None},
        {"schema_version": 15},
        {"dump_bytes": "1"},
        {"archives": [1]},
    ],
)
async def test_a_manifest_that_makes_no_sense_is_damage(
    database: str, second: str, path: Path, wrong: dict[str, object]
) -> None:
    await back_up(path, database)
    rewrite(path, lambda manifest: manifest.update(wrong))
    with pytest.raises(StartError, match=r"is damaged: manifest.json cannot be understood"):
        await restore(path, second, force=False)


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        ("CREATE TABLE invoices (total integer)", "invoices"),
        ("CREATE VIEW report AS SELECT name FROM workspaces", "report"),
        ("CREATE MATERIALIZED VIEW report AS SELECT name FROM workspaces", "report"),
        ("CREATE FUNCTION of_others() RETURNS integer LANGUAGE sql RETURN 1", r"routine of_others\(\)"),
        ("CREATE FUNCTION workspaces_touch(integer) RETURNS integer LANGUAGE sql RETURN 1", "routine workspaces_touch"),
        ("CREATE TYPE colour AS ENUM ('red')", "type colour"),
        ("CREATE DOMAIN colour AS text", "type colour"),
        ("CREATE SEQUENCE invoice_numbers", "sequence invoice_numbers"),
        ("UPDATE alembic_version SET version_num = 'a1b2c3d4'", "alembic_version, "),
        ("DELETE FROM alembic_version", "alembic_version, "),
        (f"{CONTRACTED}; CREATE TABLE invoices (total integer)", "invoices"),
    ],
)
async def test_what_is_not_codehubs_is_never_touched(database: str, path: Path, statements: str, named: str) -> None:
    """Beside CodeHub's own tables, or in the database of another program that uses Alembic."""
    await back_up(path, database)
    change(database, statements)
    with pytest.raises(StartError, match=f"not CodeHub's: .*{named}"):
        await restore(path, database, force=True)


async def test_what_relies_on_a_table_from_elsewhere_is_not_dropped_with_it(
    owner: Connection, database: str, path: Path
) -> None:
    await add_workspace(owner, name="kept")
    await back_up(path, database)
    await owner.execute("UPDATE workspaces SET name = 'since'")
    change(database, "CREATE SCHEMA other; CREATE VIEW other.report AS SELECT name FROM workspaces")
    with pytest.raises(StartError, match="depend on"):
        await restore(path, database, force=True)
    assert rows_of(database, "SELECT name FROM other.report") == [("since",)]


async def test_a_database_of_before_there_were_leaders_is_not_taken_for_empty(
    database: str, empty_database: str, path: Path
) -> None:
    await back_up(path, database)
    migrate.upgrade(empty_database, "0001")
    change(empty_database, "INSERT INTO users (id, username) VALUES (gen_random_uuid(), 'ada')")
    with pytest.raises(StartError, match="it holds 1 users and 0 workspaces"):
        await restore(path, empty_database, force=False)
    await restore(path, empty_database, force=True)


async def test_every_table_of_ours_is_known_and_marked(database: str) -> None:
    found = rows_of(
        database,
        "SELECT relname, obj_description(oid, 'pg_class') FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
    )
    assert {name for name, _ in found} == foreign.OURS, (
        "a new table belongs there, or its backups cannot be restored over"
    )
    assert {mark for _, mark in found} == {MARK}


async def test_every_routine_and_type_of_any_version_is_known(empty_database: str) -> None:
    found = set()
    for revision in reversed(list(ScriptDirectory(str(migrate.MIGRATIONS)).walk_revisions())):
        migrate.upgrade(empty_database, revision.revision)
        with psycopg.connect(empty_database) as conn:
            there = conn.execute(foreign.BESIDE, {"mark": MARK}).fetchall()
        assert all(is_marked for _, is_marked in there)
        found |= {name for name, _ in there}
    assert found == foreign.OURS_BESIDE, "a new one belongs there, as a new table does"


async def test_whatever_a_migration_may_make_is_marked_and_nothing_of_an_extension(empty_database: str) -> None:
    """An older version refuses what is not marked, and what an extension brings along is not ours to mark."""
    migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as conn:
        before = set(conn.execute(migrate.THINGS))
        conn.execute(OF_EVERY_KIND)
        made = {str(thing) for (thing,) in set(conn.execute(migrate.THINGS)) - before}
        for thing in made:
            conn.execute(f"COMMENT ON {thing} IS '{MARK}'".encode())
    assert made == {
        *("TABLE some_table", "VIEW some_view", "MATERIALIZED VIEW some_rows", "SEQUENCE some_numbers"),
        *("ROUTINE some_routine()", "TYPE some_enum", "TYPE some_domain"),
    }
    async with backups.nobody_leading(empty_database) as found:
        assert found.foreign == []
        clear = replacing.script_before(found)
        with psycopg.connect(empty_database) as conn:
            conn.execute(clear.encode())
            left = [thing for (thing,) in conn.execute(migrate.THINGS)]
            conn.rollback()
    assert left == [], "a restore drops all of it, and nothing of the extension"


async def test_another_schema_than_public(database: str, second: str, path: Path, tmp_path: Path) -> None:
    change(second, "CREATE SCHEMA hub")
    hub = make_conninfo(second, options="-csearch_path=hub")
    migrate.upgrade(hub)
    await back_up(path, hub)
    await restore(path, hub, force=True)
    assert migrate.schema_version(hub) == migrate.newest_version()
    assert rows_of(second, "SELECT has_schema_privilege('codehub_api', 'hub', 'USAGE')") == [(True,)]
    with pytest.raises(StartError, match="is of the schema hub, and here CodeHub's tables are in public"):
        await restore(path, database, force=True)


@pytest.mark.parametrize("where", ["before", "after"])
async def test_nothing_is_replaced_but_where_the_leaders_lock_is_held(database: str, second: str, where: str) -> None:
    """On another server behind the same name, or after the session that held it was cut off."""
    async with backups.nobody_leading(database) as found:
        scripts = {
            "before": replacing.script_before(found),
            "after": replacing.script_after("public", {}, found, datetime.now(UTC)),
        }
        with psycopg.connect(database) as conn:
            conn.execute(scripts[where].encode())
            conn.rollback()
        migrate.upgrade(second)
        with pytest.raises(psycopg.Error, match="not the database that was looked at"), psycopg.connect(second) as conn:
            conn.execute(scripts[where].encode())
    with pytest.raises(psycopg.Error, match="lock in it was lost"), psycopg.connect(database) as conn:
        conn.execute(scripts[where].encode())


def test_the_programs_are_led_where_the_environment_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPASSWORD", "of the environment")
    monkeypatch.setenv("SECRET", "not theirs")
    _, environment = programs.let_in("postgresql:///codehub")
    assert environment["PGHOST"] == "db.example"
    assert environment["PGPASSWORD"] == "of the environment"
    assert "SECRET" not in environment
    _, environment = programs.let_in("postgresql://me:hunter2@/codehub")
    assert environment["PGPASSWORD"] == "hunter2"
