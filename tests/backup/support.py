"""Backups of a test's database, with a world in memory beside it."""

from pathlib import Path

import psycopg

from codehub.backup.making import Made, make
from codehub.drivers.memory import MemoryWorld


async def back_up(path: Path, database: str, world: MemoryWorld | None = None) -> Made:
    archives = (world or MemoryWorld()).archives
    return await make(path, database, archives, archive_store="file:///archives", installation="here")


def rows_of(database: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database) as conn:
        return conn.execute(query).fetchall()


def epoch_of(database: str) -> int:
    ((epoch,),) = rows_of(database, "SELECT epoch FROM leadership")
    assert isinstance(epoch, int)
    return epoch
