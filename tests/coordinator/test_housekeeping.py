"""What happened long ago is forgotten, piece by piece."""

from datetime import UTC, datetime, timedelta
from typing import LiteralString
from uuid import uuid4

import pytest

from codehub.coordinator import housekeeping
from codehub.coordinator.housekeeping import Housekeeper
from codehub.coordinator.records import DatabaseRecords
from codehub.db import archive_operations
from codehub.db.pool import Connection, Role
from codehub.model.names import archive_key
from codehub.model.workspace import OpId
from tests.db.conftest import connect_as
from tests.db.support import add_workspace


async def test_a_run_forgets_one_piece(records: DatabaseRecords, owner: Connection) -> None:
    identity = await add_workspace(owner)
    await owner.execute(
        """INSERT INTO workspace_history (workspace_id, at, phase, operation)
           SELECT %s, now() - interval '1 day' * (day / 100), 'RUNNING', 'NONE' FROM generate_series(0, 9999) AS day""",
        [identity],
    )
    housekeeper = Housekeeper(records, history=timedelta(days=30, hours=12), audit=None)
    assert await housekeeper.run_once()
    assert await _left(owner) == 10000 - housekeeping._PIECE
    assert not await housekeeper.run_once()
    assert await _left(owner) == 31 * 100
    assert not await housekeeper.run_once()


@pytest.mark.parametrize(("days", "left"), [(30, 31 * 100), (None, 10000)])
async def test_the_audit_log_is_forgotten_by_age_or_never(
    records: DatabaseRecords, owner: Connection, days: int | None, left: int
) -> None:
    await owner.execute(
        """INSERT INTO audit_log (at, actor_kind, action)
           SELECT now() - interval '1 day' * (day / 100), 'system', 'a deed' FROM generate_series(0, 9999) AS day"""
    )
    age = None if days is None else timedelta(days=days, hours=12)
    housekeeper = Housekeeper(records, history=timedelta(days=30), audit=age)
    while await housekeeper.run_once():
        pass
    assert await _left(owner, "audit_log") == left


GONE = {"phase": "DELETED", "desired_state": "DELETED", "operation": "NONE"}


async def test_rows_of_what_was_deleted_long_ago_leave_the_table(records: DatabaseRecords, owner: Connection) -> None:
    past, lately = (datetime.now(UTC) - timedelta(days=days) for days in (40, 20))
    gone = [
        await add_workspace(owner, name=f"gone {n}", **GONE, deleted_at=past, phase_changed_at=past) for n in (1, 2)
    ]
    of_late = await add_workspace(owner, **GONE, deleted_at=past, phase_changed_at=lately)
    trash = await add_workspace(
        owner, phase="DELETING", desired_state="DELETED", deleted_at=past, phase_changed_at=past
    )
    archived = await add_workspace(owner, **GONE, deleted_at=past, phase_changed_at=past)
    here = await add_workspace(owner, phase="ARCHIVED", desired_state="ARCHIVED", phase_changed_at=past)
    await archive_operations.add(owner, [archive_key(archived, OpId(uuid4()))])
    housekeeper = Housekeeper(records, history=timedelta(days=30), audit=None)
    assert not await housekeeper.run_once()
    left = await (await owner.execute("SELECT id FROM workspaces")).fetchall()
    assert {identity for (identity,) in left} == {of_late, trash, archived, here}
    kept = await (await owner.execute("SELECT id, name, deleted_at FROM deleted_workspaces ORDER BY name")).fetchall()
    assert kept == [(gone[0], "gone 1", past), (gone[1], "gone 2", past)]


async def test_they_leave_in_bounded_pieces(records: DatabaseRecords, owner: Connection) -> None:
    past = datetime.now(UTC) - timedelta(days=40)
    for _ in range(3):
        await add_workspace(owner, **GONE, deleted_at=past, phase_changed_at=past)
    housekeeper = Housekeeper(records, history=timedelta(days=30), audit=None, buried_at_once=2)
    assert await housekeeper.run_once()
    assert await _left(owner, "workspaces") == 1
    assert not await housekeeper.run_once()
    assert await _left(owner, "workspaces") == 0


async def test_the_controller_buries_nothing_of_which_something_is_left(owner: Connection, database: str) -> None:
    """It has no other way to delete a row, whatever it asks for."""
    past = datetime.now(UTC) - timedelta(days=40)
    living = await add_workspace(owner, phase="ARCHIVED", desired_state="ARCHIVED", phase_changed_at=past)
    async with await connect_as(database, Role.CONTROLLER) as conn:
        await conn.execute("SELECT bury_workspaces(%s, now())", [[living]])
    assert await _left(owner, "workspaces") == 1


async def _left(owner: Connection, table: LiteralString = "workspace_history") -> int:
    row = await (await owner.execute(f"SELECT count(*) FROM {table}")).fetchone()
    assert row is not None
    return int(row[0])
