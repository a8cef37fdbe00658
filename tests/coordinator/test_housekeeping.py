"""Old history is forgotten, piece by piece."""

from datetime import timedelta

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
    housekeeper = Housekeeper(records, history_retention=timedelta(days=30, hours=12))
    assert await housekeeper.run_once()
    assert await _left(owner) == 10000 - housekeeping._PIECE
    assert not await housekeeper.run_once()
    assert await _left(owner) == 31 * 100
    assert not await housekeeper.run_once()


async def _left(owner: Connection) -> int:
    row = await (await owner.execute("SELECT count(*) FROM workspace_history")).fetchone()
    assert row is not None
    return int(row[0])
