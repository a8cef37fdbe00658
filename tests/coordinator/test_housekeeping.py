"""What happened long ago is forgotten, piece by piece."""

from datetime import timedelta
from typing import LiteralString

import pytest

from codehub.coordinator import housekeeping
from codehub.coordinator.housekeeping import Housekeeper
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
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


async def _left(owner: Connection, table: LiteralString = "workspace_history") -> int:
    row = await (await owner.execute(f"SELECT count(*) FROM {table}")).fetchone()
    assert row is not None
    return int(row[0])
