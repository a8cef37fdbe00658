"""A connection that is lost while a restore is being committed: nobody can know what became of it, and that is said."""

import asyncio
from pathlib import Path

import pytest

from codehub.backup.restoring import restore
from codehub.db import migrate
from codehub.db.pool import Connection
from codehub.db.replacing import EPOCHS_PER_RESTORE
from codehub.errors import Unavailable
from tests.backup.support import back_up, epoch_of, rows_of
from tests.db.support import add_workspace
from tests.lab.wire import wire_to_database
from tests.support import until

NAMES = "SELECT name FROM workspaces"
LOCKS = """
SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE datname = current_database() AND locktype = 'advisory'
"""


@pytest.mark.parametrize("arrives", [False, True], ids=["on the way there", "on the way back"])
async def test_it_is_said_that_it_is_not_known_and_restoring_again_is_right_in_either_case(
    owner: Connection, database: str, path: Path, arrives: bool
) -> None:
    await add_workspace(owner, name="in the backup")
    await back_up(path, database)
    await owner.execute("UPDATE workspaces SET name = 'since'")
    cutting: list[asyncio.Task[None]] = []
    async with wire_to_database(database) as (wire, url):

        async def hear(data: bytes) -> None:
            if b"COMMIT;" in data:
                wire.delay = 3600.0 if arrives else 0.0  # of the answer
                if not arrives:
                    cutting.append(asyncio.create_task(wire.cut()))
                    await asyncio.Event().wait()

        async def cut_once_it_is_there() -> None:
            async with asyncio.timeout(60):
                while await (await owner.execute(NAMES)).fetchone() != ("in the backup",):  # noqa: ASYNC110 - a server
                    await asyncio.sleep(0.02)
            await wire.cut()

        wire.hear = hear
        if arrives:
            cutting.append(asyncio.create_task(cut_once_it_is_there()))
        with pytest.raises(Unavailable) as told:
            await restore(path, url, force=True)
        await asyncio.gather(*cutting)
    said = str(told.value)
    assert "It is not known whether" in said
    assert "Start no coordinator; restore again with --force and the same options" in said
    assert "doctor" not in said, "it cannot tell this restore from an earlier one"
    assert "Nothing was changed" not in said
    assert rows_of(database, NAMES) == [("in the backup" if arrives else "since",)]
    await until(lambda: not rows_of(database, LOCKS), "the server noticed that the session is gone")
    epoch = epoch_of(database)
    await restore(path, database, force=True)
    assert rows_of(database, NAMES) == [("in the backup",)]
    assert epoch_of(database) == epoch + EPOCHS_PER_RESTORE
    assert migrate.schema_version(database) == migrate.newest_version()
