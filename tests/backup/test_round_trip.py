"""A backup is the whole database of one moment, and a restore is that again or nothing."""

# ruff: noqa: ASYNC221, ASYNC240 - files and programs of a test are quick

import asyncio
import errno
import io
import os
import stat
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.backup import programs, restoring
from codehub.backup.file import opened, write
from codehub.backup.making import _dump
from codehub.backup.restoring import restore
from codehub.db import backups, migrate
from codehub.db.leading import open_seat
from codehub.db.pool import Connection, Role, connection, open_pool
from codehub.db.replacing import EPOCHS_PER_RESTORE
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.faults import Misbehaviour
from codehub.errors import StartError
from codehub.model.names import archive_key
from codehub.model.workspace import OpId, WorkspaceId
from tests.backup.support import back_up, epoch_of, rows_of
from tests.db.schema import snapshot as schema_of
from tests.db.support import OWNER, add_workspace

ALL = "SELECT id, name, phase, archive_key, memo FROM workspaces ORDER BY id"


async def test_what_was_backed_up_comes_back_with_every_privilege(
    owner: Connection, database: str, second: str, path: Path
) -> None:
    for number in range(3):
        await add_workspace(owner, name=f"w{number}", memo="한글 \\. \t 'quoted'\nline")
    made = await back_up(path, database)
    assert made.manifest.counts["workspaces"] == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await restore(path, second, force=False)
    assert rows_of(second, ALL) == rows_of(database, ALL)
    assert _plain(schema_of(second)) == _plain(schema_of(database))
    async with open_pool(second, Role.API) as pool, connection(pool) as conn:
        await conn.execute("UPDATE workspaces SET memo = 'ours'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await conn.execute("UPDATE workspaces SET phase = 'ERROR'")


def _plain(schema: dict[str, str]) -> dict[str, str]:
    """PostgreSQL writes fewer parentheses each time it reads an expression of its own."""
    return {what: definition.replace("(", "").replace(")", "") for what, definition in schema.items()}


async def test_it_is_of_one_moment_whatever_is_written_meanwhile(
    owner: Connection, database: str, second: str, path: Path
) -> None:
    await add_workspace(owner)
    async with backups.snapshot(database) as snapshot:
        await add_workspace(owner)
        assert snapshot.counts["workspaces"] == 1
        assert len(snapshot.workspaces) == 1
        await _dump(database, snapshot, path)
    command = programs.programs_for(180000).command("pg_restore", "--data-only", "--table=workspaces", "-f-", str(path))
    copied = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert copied.count(str(OWNER)) == 1


async def test_the_manifest_says_which_archives_were_there(owner: Connection, database: str, path: Path) -> None:
    world = MemoryWorld()
    keys = {}
    for name in ("there", "lost"):
        identity, op_id = WorkspaceId(uuid4()), OpId(uuid4())
        keys[name] = archive_key(identity, op_id)
        await add_workspace(owner, id=identity, op_id=op_id, archive_key=keys[name], phase="ARCHIVED")
    await add_workspace(owner, source_archive=keys["there"])
    world.put_archive(keys["there"], {"file": b"x"})
    made = await back_up(path, database, world)
    assert sorted((one.key, one.in_store) for one in made.manifest.archives) == sorted(
        [(keys["there"], True), (keys["there"], True), (keys["lost"], False)]
    )
    with opened(path) as (manifest, _):
        assert manifest == made.manifest


async def test_a_store_that_is_out_costs_only_the_knowledge(owner: Connection, database: str, path: Path) -> None:
    identity, op_id = WorkspaceId(uuid4()), OpId(uuid4())
    await add_workspace(owner, id=identity, op_id=op_id, archive_key=archive_key(identity, op_id), phase="ARCHIVED")
    world = MemoryWorld()
    world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
    made = await back_up(path, database, world)
    assert made.store_trouble
    assert [one.in_store for one in made.manifest.archives] == [None]


async def test_an_old_leader_is_never_let_in_again(owner: Connection, database: str, second: str, path: Path) -> None:
    await back_up(path, database)
    then = epoch_of(database)
    await restore(path, second, force=False)
    assert epoch_of(second) == then + EPOCHS_PER_RESTORE
    with psycopg.connect(second) as conn:
        conn.execute("UPDATE leadership SET epoch = epoch + 70")
    seventy = epoch_of(second)
    await restore(path, second, force=True)
    assert epoch_of(second) == seventy + EPOCHS_PER_RESTORE, "above whatever was there, too"


@pytest.mark.parametrize("schema", ["0029", None])
async def test_a_restore_settles_lost_commits(empty_database: str, path: Path, schema: str | None) -> None:
    """Whatever was noted of commits before it is behind what it counts on from, backups of other restores included."""

    def counted(statement: str = "SELECT 1") -> tuple[object, ...]:
        with psycopg.connect(empty_database) as conn:
            conn.execute(statement)
        (row,) = rows_of(empty_database, "SELECT commits, lost_commits, lost_commits_at, epoch FROM leadership")
        return row

    migrate.upgrade(empty_database, schema or migrate.newest_version())
    with psycopg.connect(empty_database) as conn:
        conn.execute("UPDATE leadership SET epoch = 1000000")
    await back_up(path, empty_database)
    migrate.upgrade(empty_database)
    noted = 0
    for _ in range(2):
        counted("UPDATE leadership SET commits = commits + 70, lost_commits = 3, lost_commits_at = now()")
        noted += 73
        await restore(path, empty_database, force=True)
        commits, *lost, epoch = counted()
        assert commits == epoch
        assert isinstance(commits, int)
        assert commits > noted
        assert lost == [None, None]
        noted = commits


async def test_a_restore_forgets_no_marker_of_the_archive_store_and_takes_none_over(
    database: str, second: str, path: Path
) -> None:
    first, later = uuid4(), uuid4()

    def mark(url: str, *tokens: UUID) -> None:
        with psycopg.connect(url) as conn:
            conn.execute("UPDATE leadership SET store_tokens = %s, store_trouble = 'x'", [list(tokens)])

    def marked(url: str) -> list[tuple[object, ...]]:
        return rows_of(url, "SELECT store_tokens, store_trouble FROM leadership")

    mark(database, first)
    await back_up(path, database)
    mark(database, later, first)
    await restore(path, database, force=True)
    ((tokens, trouble),) = marked(database)
    assert isinstance(tokens, list)
    assert (set(tokens), trouble) == ({first, later}, None)
    await restore(path, second, force=False)
    assert marked(second) == [([first], None)]


async def test_what_is_older_than_the_world_is_settled(
    owner: Connection, database: str, second: str, path: Path
) -> None:
    long_ago, now = datetime.now(UTC) - timedelta(days=6), datetime.now(UTC)
    op_id = uuid4()
    trashed = await add_workspace(owner, desired_state="DELETED", phase="DELETING", deleted_at=long_ago)
    purged = await add_workspace(
        owner, desired_state="DELETED", phase="DELETING", deleted_at=long_ago, purged_at=long_ago
    )
    packing = await add_workspace(owner, phase="STANDBY", operation="ARCHIVING", op_id=op_id, desired_state="ARCHIVED")
    active = await add_workspace(owner, desired_state="RUNNING", last_access_at=long_ago)
    await owner.execute(
        "INSERT INTO sessions (token_hash, user_id, expires_at) VALUES ('x', %s, now() + interval '1 day')", [OWNER]
    )
    await owner.execute("INSERT INTO accepted_losses (backend, accepted_by) VALUES ('process', %s)", [OWNER])
    await back_up(path, database)
    await restore(path, second, force=False)
    ((kept,),) = rows_of(second, f"SELECT deleted_at FROM workspaces WHERE id = '{trashed}'")
    ((gone,),) = rows_of(second, f"SELECT deleted_at FROM workspaces WHERE id = '{purged}'")
    ((drawn,),) = rows_of(second, f"SELECT op_id FROM workspaces WHERE id = '{packing}'")
    ((seen,),) = rows_of(second, f"SELECT last_access_at FROM workspaces WHERE id = '{active}'")
    assert isinstance(kept, datetime)
    assert isinstance(seen, datetime)
    assert abs(kept - now) < timedelta(minutes=5), "the trash is kept for a whole retention again"
    assert gone == long_ago
    assert drawn != op_id, "an archive that this op_id has finished may be older than the volume"
    assert abs(seen - now) < timedelta(minutes=5)
    assert rows_of(second, "SELECT count(*) FROM sessions") == [(0,)]
    assert rows_of(second, "SELECT count(*) FROM accepted_losses") == [(0,)], "said of another world"


async def test_a_recovery_that_was_not_carried_out_yet_is_not_carried_out_in_another_world(
    owner: Connection, database: str, second: str, path: Path
) -> None:
    """It may have been since, and a home made after it: a forced one would remove that."""
    request = {"id": str(uuid4()), "from": "blank", "force": True, "answers": "DataLost"}
    error = {"phase": "ERROR", "error_reason": "DataLost", "recover_request": request}
    pending = await add_workspace(owner, **error)
    another = await add_workspace(owner, **error, recover_handled_id=uuid4())
    handled = await add_workspace(owner, **error, recover_handled_id=request["id"])
    await back_up(path, database)
    await restore(path, second, force=False)
    left = {row[0]: row[1] for row in rows_of(second, "SELECT id, recover_request FROM workspaces")}
    assert left == {pending: None, another: None, handled: request}


@pytest.mark.parametrize(
    ("then", "home"),
    [
        ({"phase": "ARCHIVED", "operation": "RESTORING"}, "restoring"),
        ({"phase": "PENDING", "operation": "PROVISIONING"}, "none"),
        ({"phase": "PENDING", "operation": "CREATE_EMPTY_ARCHIVE"}, "none"),
        ({"phase": "STANDBY", "operation": "ARCHIVING"}, "live"),
        ({"phase": "ARCHIVED", "operation": "ARCHIVING"}, "condemned"),
        ({"phase": "STANDBY", "operation": "STARTING"}, "live"),
        ({"phase": "RUNNING", "operation": "STOPPING"}, "live"),
        ({"phase": "DELETING", "operation": "DELETING", "deleted_at": datetime.now(UTC)}, "condemned"),
        ({"phase": "ARCHIVED", "operation": "NONE"}, "condemned"),
    ],
    ids=lambda one: one["operation"] if isinstance(one, dict) else one,
)
async def test_no_operation_goes_on_and_no_volume_that_may_be_a_home_by_now_is_taken_for_its_own(
    owner: Connection, database: str, second: str, path: Path, then: dict[str, object], home: str
) -> None:
    """A restore would run over what has become a newer home since; the removal of an old volume would take one."""
    op_id = uuid4()
    context: dict[str, object] = {
        "volume": home,
        "incarnation": str(op_id),
        "uid": "u",
        "retired": ["r"],
        "instance_op": str(op_id),
    }
    identity = await add_workspace(owner, **then, op_id=op_id, op_started_at=datetime.now(UTC), home_ctx=context)
    await back_up(path, database)
    await restore(path, second, force=False)
    ((operation, drawn, found),) = rows_of(
        second, f"SELECT operation, op_id, home_ctx FROM workspaces WHERE id = '{identity}'"
    )
    assert isinstance(found, dict)
    assert operation == "NONE"
    assert (drawn == op_id) == (then["operation"] == "NONE")
    if drawn != op_id:
        assert found["instance_op"] is None, "nothing else would ask whether that instance ever became ready"
        context["instance_op"] = None
    if home == "live" or "deleted_at" in then:
        assert found == context, "what is live stays known; what was deleted goes on going"
    else:
        assert (found["volume"], found["incarnation"], found["uid"], found["retired"]) == ("none", None, None, ["r"])


async def test_a_database_that_is_not_empty_is_kept_without_force(owner: Connection, database: str, path: Path) -> None:
    await add_workspace(owner, name="first")
    await back_up(path, database)
    await add_workspace(owner, name="second")
    with pytest.raises(StartError, match="not empty: it holds 1 users and 2 workspaces"):
        await restore(path, database, force=False)
    assert len(rows_of(database, ALL)) == 2
    await restore(path, database, force=True)
    assert [row[1] for row in rows_of(database, ALL)] == ["first"]


async def test_it_is_refused_while_a_coordinator_leads(database: str, path: Path) -> None:
    await back_up(path, database)
    async with open_seat(database) as seat:
        assert await seat.try_to_take()
        with pytest.raises(StartError, match="A coordinator leads"):
            await restore(path, database, force=True)
    await restore(path, database, force=True)


async def test_other_peoples_tables_are_never_touched(database: str, second: str, path: Path) -> None:
    await back_up(path, database)
    with psycopg.connect(second) as conn:
        conn.execute("CREATE TABLE invoices ()")
    with pytest.raises(StartError, match="not CodeHub's"):
        await restore(path, second, force=True)


async def test_a_damaged_file_changes_nothing(owner: Connection, database: str, path: Path) -> None:
    await add_workspace(owner)
    await back_up(path, database)
    content = bytearray(path.read_bytes())
    content[content.index(b"PGDMP") + 2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(StartError, match="its checksum is wrong"):
        await restore(path, database, force=True)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StartError, match="is damaged"):
        await restore(path, database, force=True)
    path.write_bytes(b"hello")
    with pytest.raises(StartError, match="damaged"):
        await restore(path, database, force=True)
    assert len(rows_of(database, ALL)) == 1


@pytest.mark.parametrize("broken", ["pg_restore", "psql"])
async def test_whatever_dies_on_the_way_leaves_the_database_as_it_was(
    owner: Connection, database: str, path: Path, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_workspace(owner, name="in the backup")
    await back_up(path, database)
    await owner.execute("UPDATE workspaces SET name = 'since'")
    real = programs.programs_for(180000).folder
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("pg_dump", "pg_restore", "psql"):
        if name != broken:
            (folder / name).symlink_to(real / name)
    # It gets through some of its work, and dies.
    part = {"pg_restore": '"$0" "$@" | sed "/CREATE INDEX/,\\$d"', "psql": 'head -c 9000 | "$0" "$@"'}[broken]
    (folder / broken).write_text("#!/bin/sh\n" + part.replace("$0", str(real / broken)) + "\nexit 1\n")
    (folder / broken).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert programs.programs_for(180000).folder == folder
    with pytest.raises(StartError):
        await restoring.restore(path, database, force=True)
    assert [row[1] for row in rows_of(database, ALL)] == ["since"]


# More than every pipe on the way holds, and of such a kind that packing it does not help.
MUCH = """
INSERT INTO audit_log (actor_kind, action)
SELECT 'system', md5(n::text) || md5((n + 0.5)::text) FROM generate_series(1, 40000) AS n
"""
LIMIT_SECONDS = 120  # for what would otherwise hang; on a busy machine it takes several


async def test_psql_may_end_long_before_the_dump_does(owner: Connection, database: str, path: Path) -> None:
    await owner.execute(MUCH)
    await back_up(path, database)
    await owner.execute("CREATE SCHEMA other")
    await owner.execute("CREATE VIEW other.report AS SELECT name FROM workspaces")
    async with asyncio.timeout(LIMIT_SECONDS):
        with pytest.raises(StartError, match="psql failed: cannot drop"):
            await restore(path, database, force=True)
    async with open_seat(database) as seat:  # the leader's lock is free again
        assert await seat.try_to_take()


async def test_a_restore_that_is_given_up_ends_at_once(owner: Connection, database: str, path: Path) -> None:
    """While psql waits for a table and pg_restore for psql."""
    await owner.execute(MUCH)
    await back_up(path, database)
    async with asyncio.timeout(LIMIT_SECONDS), owner.transaction():
        await owner.execute("LOCK TABLE workspaces IN ACCESS SHARE MODE")
        doing = asyncio.create_task(restore(path, database, force=True))
        blocked = "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        while await (await owner.execute(blocked)).fetchone() != (True,):
            await owner.execute("SELECT pg_sleep(0.05)")
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing


async def test_a_file_that_can_be_read_no_further(owner: Connection, database: str, second: str, path: Path) -> None:
    """As when a disk fails or a share goes away after the checksum was found right."""
    await owner.execute(MUCH)
    await back_up(path, database)

    class Failing(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > manifest.dump_bytes // 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(size) or b""

    found = programs.programs_for(180000)
    with opened(path) as (manifest, dump), Failing(path) as failing:
        failing.seek(dump.tell())
        async with asyncio.timeout(LIMIT_SECONDS), backups.nobody_leading(second) as before:
            with pytest.raises(StartError) as caught:
                await restoring._replace(found, second, manifest, failing, before)
    assert caught.value.message == f"{path} cannot be read: Input/output error."
    assert migrate.schema_version(second) is None


async def test_a_newer_backup_is_refused_before_anything_is_touched(
    owner: Connection, database: str, path: Path
) -> None:
    await owner.execute("UPDATE alembic_version SET version_num = '9999'")
    await owner.execute("UPDATE schema_floor SET version = '9998'")
    await back_up(path, database)
    with pytest.raises(StartError, match="newer than this CodeHub"):
        await restore(path, database, force=True)
    assert rows_of(database, "SELECT holder FROM leadership") != [("a restore",)]


async def test_an_older_backup_is_migrated_forward(second: str, empty_database: str, path: Path) -> None:
    migrate.upgrade(empty_database, "0009")
    await back_up(path, empty_database)
    await restore(path, second, force=False)
    assert migrate.schema_version(second) == migrate.newest_version()
    await restore(path, second, force=True)  # also over a newer schema
    assert migrate.schema_version(second) == migrate.newest_version()


async def test_no_file_is_overwritten_and_none_is_left_half_done(database: str, path: Path, tmp_path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(StartError, match="is there already"):
        await back_up(path, database)
    assert path.read_text() == "precious"
    with pytest.raises(StartError, match="cannot be reached"):
        await back_up(tmp_path / "other", "postgresql://nobody:hunter2@127.0.0.1:1/x")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


async def test_where_a_file_can_have_one_name_only(database: str, path: Path, tmp_path: Path) -> None:
    """As on memory sticks and some network shares."""

    def refuse(_file: Path, _name: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    await back_up(path, database)
    dump, other = tmp_path / "dump", tmp_path / "other"
    with opened(path) as (manifest, content):
        dump.write_bytes(content.read(manifest.dump_bytes))
    write(other, manifest, dump, link=refuse)
    with opened(other) as (found, _):
        assert found == manifest
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
    precious = other.read_bytes()
    with pytest.raises(StartError, match="is there already"):
        write(other, manifest, dump, link=refuse)
    assert other.read_bytes() == precious


async def test_trouble_elsewhere_is_not_called_the_files(database: str, path: Path) -> None:
    await back_up(path, database)
    with pytest.raises(TimeoutError, match="elsewhere"), opened(path):
        raise TimeoutError("elsewhere")


async def test_a_program_that_fails_is_quoted() -> None:
    script = "echo 'psql:<stdin>:3: ERROR:  the disk is full' >&2; exit 3"
    process = await asyncio.create_subprocess_exec("sh", "-c", script, stderr=asyncio.subprocess.PIPE)
    with pytest.raises(StartError) as caught:
        await programs.finished(process, "psql")
    assert caught.value.message == "psql failed: the disk is full."


def test_the_programs_get_the_password_in_their_environment_only() -> None:
    argument, environment = programs.let_in("postgresql://me:hunter2@db.example:5433/codehub?sslmode=require")
    assert "hunter2" not in argument
    assert environment["PGPASSWORD"] == "hunter2"
    assert "sslmode=require" in argument
    with pytest.raises(StartError, match="version 99 or newer"):
        programs.programs_for(990000)


async def test_the_file_is_an_ordinary_tar(database: str, path: Path) -> None:
    await back_up(path, database)
    with tarfile.open(path) as tar:
        assert tar.getnames() == ["manifest.json", "database.dump"]
