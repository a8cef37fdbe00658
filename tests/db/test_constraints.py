"""What the database itself refuses, whoever writes."""

from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from psycopg.errors import CheckViolation, NotNullViolation, UniqueViolation

from codehub.db.pool import Connection
from codehub.model.workspace import Operation, Phase, UserId
from tests.db.support import add_user, add_workspace, change


async def test_error_is_idle(owner: Connection) -> None:
    identity = await add_workspace(owner)
    for phase, operation in product(Phase, Operation):
        if phase is Phase.ERROR and operation is not Operation.NONE:
            with pytest.raises(CheckViolation, match="workspaces_error_is_idle"):
                await change(owner, identity, phase=phase.value, operation=operation.value)
        else:
            await change(owner, identity, phase=phase.value, operation=operation.value)


async def test_only_a_running_workspace_has_an_endpoint(owner: Connection) -> None:
    identity = await add_workspace(owner)
    for phase in Phase:
        if phase is Phase.RUNNING:
            await change(owner, identity, phase=phase.value, endpoint="10.0.0.1:8080")
        else:
            with pytest.raises(CheckViolation, match="workspaces_endpoint"):
                await change(owner, identity, phase=phase.value, endpoint="10.0.0.1:8080")


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"desired_state": "PENDING"}, "workspaces_desired_state"),
        ({"desired_state": "ERROR"}, "workspaces_desired_state"),
        ({"desired_state": "DELETING"}, "workspaces_desired_state"),
        ({"standby_ttl_seconds": 59}, "workspaces_standby_ttl"),
        ({"standby_ttl_seconds": -1}, "workspaces_standby_ttl"),
        ({"archive_ttl_seconds": 1}, "workspaces_archive_ttl"),
        ({"name": ""}, "workspaces_name"),
        ({"name": "  "}, "workspaces_name"),
        ({"error_count": -1}, "workspaces_error_count"),
        ({"home_store_key": "elsewhere"}, "workspaces_home_store_key"),
        ({"home_ctx": {"volume": "whole"}}, "workspaces_home_ctx"),
        ({"home_ctx": {}}, "workspaces_home_ctx"),
    ],
)
async def test_checks(owner: Connection, columns: dict[str, Any], constraint: str) -> None:
    with pytest.raises(CheckViolation, match=constraint):
        await add_workspace(owner, **columns)


@pytest.mark.parametrize("column", ["standby_ttl_seconds", "archive_ttl_seconds"])
async def test_a_ttl_has_no_default(owner: Connection, column: str) -> None:
    with pytest.raises(NotNullViolation, match=column):
        await add_workspace(owner, **{column: None})


@pytest.mark.parametrize("seconds", [0, 60, 86400])
async def test_ttls_that_are_fine(owner: Connection, seconds: int) -> None:
    await add_workspace(owner, standby_ttl_seconds=seconds, archive_ttl_seconds=seconds)


async def test_usernames_differ_by_more_than_case(owner: Connection) -> None:
    user = await add_user(owner)
    await owner.execute("UPDATE users SET username = 'Ada' WHERE id = %s", [user])
    with pytest.raises(UniqueViolation):
        await owner.execute("INSERT INTO users (id, username) VALUES (%s, 'aDA')", [uuid4()])


async def test_there_is_one_leadership(owner: Connection) -> None:
    with pytest.raises(UniqueViolation):
        await owner.execute("INSERT INTO leadership (epoch, holder) VALUES (1, 'me')")
    with pytest.raises(CheckViolation):
        await owner.execute("INSERT INTO leadership (only_row, epoch, holder) VALUES (false, 1, 'me')")


async def test_history_goes_with_its_workspace_and_the_audit_log_stays(owner: Connection) -> None:
    identity = await add_workspace(owner, owner_user_id=UserId(uuid4()))
    await owner.execute(
        "INSERT INTO workspace_history (workspace_id, at, phase, operation) VALUES (%s, now(), 'PENDING', 'NONE')",
        [identity],
    )
    await owner.execute(
        "INSERT INTO audit_log (actor_kind, action, workspace_id) VALUES ('system', 'created', %s)", [identity]
    )
    await owner.execute("DELETE FROM workspaces")
    left = await owner.execute("SELECT (SELECT count(*) FROM workspace_history), (SELECT count(*) FROM audit_log)")
    assert await left.fetchone() == (0, 1)
