"""A connection that is lost while a restore is being committed: nobody can know what became of it, and that is said."""

import asyncio
from pathlib import Path

import pytest

from codehub.backup.restoring import restore
from codehub.db.pool import Connection
from codehub.errors import Unavailable
from tests.backup.support import back_up, rows_of
from tests.db.support import add_workspace
from tests.lab.wire import wire_to_database

NAMES = "SELECT name FROM workspaces"


@pytest.mark.parametrize("arrives", [False, True], ids=["on the way there", "on the way back"])
async def test_it_is_said_that_it_is_not_known_and_how_to_look(
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
    assert "codehub doctor" in said
    assert "Nothing was changed" not in said
    assert rows_of(database, NAMES) == [("in the backup" if arrives else "since",)]
