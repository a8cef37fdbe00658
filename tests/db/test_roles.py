"""Single writer: PostgreSQL refuses each role the columns that are not its own (SPEC section 3)."""

from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from codehub.db.pool import Connection, Role
from tests.db.conftest import connect_as
from tests.db.support import OWNER, add_workspace
from tests.support import Databases

# SPEC section 3's table, written out again: this file must not learn it from the migration.
CONSTANT = {
    "id", "owner_user_id", "created_at", "instance_backend", "storage_backend", "home_store_key", "source_archive",
}  # fmt: skip
API = {
    "name", "description", "memo", "tags", "is_favorite", "image_ref", "desired_state", "deleted_at", "purged_at",
    "recover_request", "keep_awake_until", "standby_ttl_seconds", "archive_ttl_seconds", "last_access_at", "safe_mode",
    "asked_by",
}  # fmt: skip
CONTROLLER = {
    "conditions", "phase", "phase_changed_at", "observed_at", "operation", "op_started_at", "op_id", "archive_key",
    "home_ctx", "endpoint", "error_reason", "error_count", "retry_at", "recover_handled_id",
}  # fmt: skip
TRIGGER = {"updated_at"}
COLUMNS = sorted(CONSTANT | API | CONTROLLER | TRIGGER)
WRITERS: dict[Role, set[str]] = {Role.API: API, Role.CONTROLLER: CONTROLLER, Role.PROXY: set()}

# What the proxy may see and note, column by column; of everything else it has nothing at all.
PROXY_SEES = {
    "users": {"id", "role", "disabled_at"},
    "sessions": {"id", "token_hash", "user_id", "expires_at", "last_seen_at"},
    "tokens": {"id", "token_hash", "user_id", "scope", "expires_at", "revoked_at", "last_used_at"},
    "workspaces": {"id", "owner_user_id", "desired_state", "deleted_at", "phase", "endpoint", "op_id"},
    "visits": {"token_hash", "session_id", "token_id", "workspace_id", "port", "expires_at"},
}
PROXY_NOTES = {"sessions": {"last_seen_at"}, "tokens": {"last_used_at"}}

# Everything else: which of SELECT, INSERT, UPDATE, DELETE each role has on a table as a whole.
TABLES = {
    "users": {Role.API: "SIUD", Role.CONTROLLER: "", Role.PROXY: ""},
    "sessions": {Role.API: "SIUD", Role.CONTROLLER: "", Role.PROXY: ""},
    "tokens": {Role.API: "SIUD", Role.CONTROLLER: "", Role.PROXY: ""},
    "audit_log": {Role.API: "SI", Role.CONTROLLER: "D", Role.PROXY: ""},
    "workspaces": {Role.API: "S", Role.CONTROLLER: "S", Role.PROXY: ""},
    "workspace_history": {Role.API: "S", Role.CONTROLLER: "SID", Role.PROXY: ""},
    "leadership": {Role.API: "S", Role.CONTROLLER: "S", Role.PROXY: ""},
    "visits": {Role.API: "SID", Role.CONTROLLER: "", Role.PROXY: ""},
    "gc_runs": {Role.API: "S", Role.CONTROLLER: "SD", Role.PROXY: ""},
    "samples": {Role.API: "S", Role.CONTROLLER: "SID", Role.PROXY: ""},
    "accepted_losses": {Role.API: "S", Role.CONTROLLER: "S", Role.PROXY: ""},
    "archive_operations": {Role.API: "S", Role.CONTROLLER: "SD", Role.PROXY: ""},
    "deleted_workspaces": {Role.API: "S", Role.CONTROLLER: "", Role.PROXY: ""},
    "limits": {Role.API: "S", Role.CONTROLLER: "", Role.PROXY: ""},
    "schema_floor": {Role.API: "S", Role.CONTROLLER: "", Role.PROXY: ""},
    "alembic_version": {Role.API: "S", Role.CONTROLLER: "", Role.PROXY: ""},
}


@pytest.fixture(scope="module")
async def shared(databases: Databases, migrated_template: str) -> AsyncIterator[str]:
    """One database with a workspace in it; nothing here changes it."""
    with databases.one(migrated_template) as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await add_workspace(conn)
        yield url


@pytest.fixture(scope="module")
async def acting_as(shared: str) -> AsyncIterator[dict[Role, Connection]]:
    async with (
        await connect_as(shared, Role.API) as api,
        await connect_as(shared, Role.CONTROLLER) as controller,
        await connect_as(shared, Role.PROXY) as proxy,
    ):
        yield {Role.API: api, Role.CONTROLLER: controller, Role.PROXY: proxy}


async def test_the_table_above_covers_every_column(acting_as: dict[Role, Connection]) -> None:
    cursor = await acting_as[Role.API].execute("SELECT * FROM workspaces LIMIT 0")
    assert cursor.description is not None
    assert sorted(column.name for column in cursor.description) == COLUMNS
    assert len(COLUMNS) == len(CONSTANT) + len(API) + len(CONTROLLER) + len(TRIGGER), "a column has two owners"


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("column", COLUMNS)
async def test_a_column_is_written_by_its_owner_only(
    acting_as: dict[Role, Connection], role: Role, column: str
) -> None:
    statement = SQL("UPDATE workspaces SET {0} = {0}").format(Identifier(column))
    if column in WRITERS[role]:
        assert (await acting_as[role].execute(statement)).rowcount == 1
    else:
        with pytest.raises(InsufficientPrivilege):
            await acting_as[role].execute(statement)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("column", COLUMNS)
async def test_a_column_is_given_at_creation_by_the_api_only(
    acting_as: dict[Role, Connection], role: Role, column: str
) -> None:
    statement = SQL("INSERT INTO workspaces ({0}) SELECT {0} FROM workspaces WHERE false").format(Identifier(column))
    if role is Role.API and column in CONSTANT | API:
        await acting_as[role].execute(statement)
    else:
        with pytest.raises(InsufficientPrivilege):
            await acting_as[role].execute(statement)


@pytest.mark.parametrize("role", Role)
async def test_nobody_deletes_a_workspace(acting_as: dict[Role, Connection], role: Role) -> None:
    with pytest.raises(InsufficientPrivilege):
        await acting_as[role].execute("DELETE FROM workspaces WHERE false")
    with pytest.raises(InsufficientPrivilege):
        await acting_as[role].execute("TRUNCATE workspaces CASCADE")


async def test_every_table_is_covered(acting_as: dict[Role, Connection]) -> None:
    rows = await acting_as[Role.API].execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')"
    )
    assert {name for (name,) in await rows.fetchall()} == set(TABLES)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("table", TABLES)
async def test_tables(acting_as: dict[Role, Connection], role: Role, table: str) -> None:
    privileges = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE", "R": "REFERENCES"}
    for letter, privilege in privileges.items():
        row = await (await acting_as[role].execute("SELECT has_table_privilege(%s, %s)", [table, privilege])).fetchone()
        assert row == (letter in TABLES[table][role],), privilege


async def may_only(conn: Connection, table: str, column: str, **privileges: bool) -> None:
    for privilege, allowed in privileges.items():
        asked = "SELECT has_column_privilege(%s, %s, %s)"
        row = await (await conn.execute(asked, [table, column, privilege])).fetchone()
        assert row == (allowed,), (column, privilege)


LOSSES_SAID, LOSSES_NOTED = {"accepted_by", "accepted_at"}, {"missing", "missing_at"}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("column", sorted(LOSSES_SAID | LOSSES_NOTED | {"backend"}))
async def test_losses_are_accepted_by_one_and_the_other_notes_whom_that_is_about(
    acting_as: dict[Role, Connection], role: Role, column: str
) -> None:
    inserted, updated = {
        Role.API: ({"backend", "accepted_by"}, LOSSES_SAID),
        Role.CONTROLLER: (set[str](), LOSSES_NOTED),
        Role.PROXY: (set[str](), set[str]()),
    }[role]
    await may_only(acting_as[role], "accepted_losses", column, INSERT=column in inserted, UPDATE=column in updated)


GC_REQUEST = {"id", "requested_by", "dry_run", "override", "unknown_too", "orphans"}
GC_RESULT = {"started_at", "finished_at", "report"}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("column", sorted(GC_REQUEST | GC_RESULT | {"requested_at"}))
async def test_a_collection_is_asked_for_by_one_and_answered_by_the_other(
    acting_as: dict[Role, Connection], role: Role, column: str
) -> None:
    inserted, updated = {
        Role.API: (GC_REQUEST, set[str]()),
        Role.CONTROLLER: (GC_RESULT | {"id"}, GC_RESULT),
        Role.PROXY: (set[str](), set[str]()),
    }[role]
    await may_only(acting_as[role], "gc_runs", column, INSERT=column in inserted, UPDATE=column in updated)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("column", ["workspace_id", "op_id", "begun_at"])
async def test_when_an_archive_was_begun_is_nobodys_to_say(
    acting_as: dict[Role, Connection], role: Role, column: str
) -> None:
    is_named = role is not Role.PROXY and column != "begun_at"
    await may_only(acting_as[role], "archive_operations", column, INSERT=is_named, UPDATE=False)


@pytest.mark.parametrize("table", TABLES)
async def test_the_proxy_sees_what_it_needs_and_notes_that_logins_are_in_use(
    acting_as: dict[Role, Connection], table: str
) -> None:
    rows = await acting_as[Role.API].execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        [table],
    )
    for (column,) in await rows.fetchall():
        allowed = {
            "SELECT": column in PROXY_SEES.get(table, set()),
            "UPDATE": column in PROXY_NOTES.get(table, set()),
            "INSERT": False,
            "REFERENCES": False,
        }
        await may_only(acting_as[Role.PROXY], table, column, **allowed)


@pytest.mark.parametrize("statement", ["SELECT password_hash FROM users", "SELECT * FROM sessions", "TABLE tokens"])
async def test_secrets_are_hidden_from_the_controller(acting_as: dict[Role, Connection], statement: str) -> None:
    await acting_as[Role.API].execute(statement.encode())
    with pytest.raises(InsufficientPrivilege):
        await acting_as[Role.CONTROLLER].execute(statement.encode())


async def test_others_have_nothing(databases: Databases, shared: str) -> None:
    """A login that is neither the owner nor a member of a role."""
    name = f"{databases.prefix}_nobody"
    async with await psycopg.AsyncConnection.connect(shared, autocommit=True) as conn:
        await conn.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(name)))
        try:
            for table in TABLES:
                for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                    row = await (
                        await conn.execute("SELECT has_any_column_privilege(%s, %s, %s)", [name, table, privilege])
                        if privilege != "DELETE"
                        else await conn.execute("SELECT has_table_privilege(%s, %s, %s)", [name, table, privilege])
                    ).fetchone()
                    assert row == (False,), (table, privilege)
            for function in ("workspaces_touch()", "workspaces_notify()", "gc_runs_notify()", "workspaces_remember()"):
                row = await (
                    await conn.execute("SELECT has_function_privilege(%s, %s, 'EXECUTE')", [name, function])
                ).fetchone()
                assert row == (False,), function
        finally:
            await conn.execute(SQL("DROP ROLE {}").format(Identifier(name)))


async def test_the_roles_do_their_daily_work(api: Connection, controller: Connection) -> None:
    """What is granted is enough, triggers and identity columns included."""
    await api.execute("INSERT INTO users (id, username, password_hash) VALUES (%s, 'ada', 'h')", [OWNER])
    await api.execute("INSERT INTO sessions (token_hash, user_id, expires_at) VALUES ('t', %s, now())", [OWNER])
    await api.execute(
        "INSERT INTO tokens (id, user_id, name, token_hash, scope) VALUES (%s, %s, 'ci', 't', 'read')", [uuid4(), OWNER]
    )
    await api.execute("INSERT INTO audit_log (actor_kind, actor_user_id, action) VALUES ('user', %s, 'login')", [OWNER])
    with pytest.raises(InsufficientPrivilege):
        await api.execute("UPDATE audit_log SET action = 'nothing'")
    identity = uuid4()
    await api.execute(
        """INSERT INTO workspaces (id, owner_user_id, instance_backend, storage_backend, home_store_key, name,
               image_ref, standby_ttl_seconds, archive_ttl_seconds)
           VALUES (%(id)s, %(owner)s, 'process', 'directory', 'ws-' || %(id)s || '-home', 'w', 'ide', 0, 60)""",
        {"id": identity, "owner": OWNER},
    )
    await api.execute("UPDATE workspaces SET memo = 'm'")
    await controller.execute("UPDATE workspaces SET phase = 'STANDBY'")
    await controller.execute(
        "INSERT INTO workspace_history (workspace_id, at, phase, operation) VALUES (%s, now(), 'STANDBY', 'NONE')",
        [identity],
    )
    await controller.execute("DELETE FROM workspace_history")
    await controller.execute("UPDATE leadership SET epoch = epoch + 1, commits = commits + 1, lost_commits = 1")
    with pytest.raises(InsufficientPrivilege):
        await controller.execute("DELETE FROM leadership")
    await api.execute("DELETE FROM sessions")
