"""Every operation that makes an archive is remembered, whoever writes it; an upgrade takes over what is under way."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.db import archive_operations, migrate
from codehub.db.pool import Connection
from codehub.model.names import archive_key
from codehub.model.workspace import OpId, WorkspaceId
from tests.db.support import add_workspace


async def remembered(conn: Connection) -> set[tuple[UUID, UUID]]:
    rows = await (await conn.execute("SELECT workspace_id, op_id FROM archive_operations")).fetchall()
    return set(rows)


@pytest.mark.parametrize("operation", ["ARCHIVING", "CREATE_EMPTY_ARCHIVE"])
async def test_whoever_begins_an_archive_is_remembered(
    owner: Connection, controller: Connection, operation: str
) -> None:
    """Whatever version writes: the statement is an old one's, and so is its role."""
    identity = await add_workspace(owner)
    ops = [uuid4() for _ in range(3)]
    for op_id in ops:
        await controller.execute("UPDATE workspaces SET operation = %s, op_id = %s", [operation, op_id])
        await controller.execute("UPDATE workspaces SET observed_at = now()")
    await controller.execute("UPDATE workspaces SET operation = 'RESTORING', op_id = %s", [uuid4()])
    assert await remembered(owner) == {(identity, op_id) for op_id in ops}


async def test_an_archive_that_a_row_is_given_is_remembered(owner: Connection, controller: Connection) -> None:
    identity, op_id, first = WorkspaceId(uuid4()), OpId(uuid4()), OpId(uuid4())
    await add_workspace(owner, id=identity, archive_key=archive_key(identity, first))
    for key in (archive_key(identity, op_id), archive_key(WorkspaceId(uuid4()), OpId(uuid4())), "elsewhere", None):
        await controller.execute("UPDATE workspaces SET archive_key = %s", [key])
    assert await remembered(owner) == {(identity, first), (identity, op_id)}


async def test_an_upgrade_remembers_what_is_under_way_and_when_it_began_to(empty_database: str) -> None:
    migrate.upgrade(empty_database, "0020")
    begun = datetime.now(UTC)
    async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as conn:
        making, moved_on, lately, long_ago = (OpId(uuid4()) for _ in range(4))
        first = await add_workspace(conn, phase="STANDBY", operation="ARCHIVING", op_id=making, op_started_at=begun)
        await add_workspace(conn, phase="ARCHIVED", operation="RESTORING", op_id=moved_on, op_started_at=begun)
        second, third = WorkspaceId(uuid4()), WorkspaceId(uuid4())
        for identity, op_id, changed_at in ((second, lately, begun), (third, long_ago, begun - timedelta(days=9))):
            await add_workspace(
                conn,
                id=identity,
                phase="ARCHIVED",
                desired_state="ARCHIVED",
                op_id=op_id,
                archive_key=archive_key(identity, op_id),
                phase_changed_at=changed_at,
            )
        migrate.upgrade(empty_database)
        assert await remembered(conn) == {(first, making), (second, lately)}
        assert await archive_operations.since(conn) > begun
