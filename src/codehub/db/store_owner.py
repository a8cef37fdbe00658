"""Which markers of the archive store are this database's own (ADR 25): the newest tokens, and what is wrong with it."""

from uuid import UUID

from codehub.db.lost_commits import read_count
from codehub.db.pool import Connection
from codehub.model.store_owner import StoreClaim

_REMEMBERED = 16  # a leader that was frozen may leave an older one

_READ = "SELECT store_tokens FROM leadership"
_ADD = f"UPDATE leadership SET store_tokens = (array_prepend(%s, store_tokens))[1:{_REMEMBERED}]"  # noqa: S608 - a number
_ADD_AS = f"{_ADD} WHERE epoch = %s"
_NOTE = "UPDATE leadership SET store_trouble = %s WHERE epoch = %s AND store_trouble IS DISTINCT FROM %s"


async def claim(conn: Connection) -> StoreClaim:
    row = await (await conn.execute(_READ)).fetchone()
    assert row is not None
    return StoreClaim(tuple(row[0]), (await read_count(conn)).database)


async def add_token(conn: Connection, epoch: int, token: UUID) -> bool:
    """Whether it was: not for a leader that was replaced."""
    return (await conn.execute(_ADD_AS, [token, epoch])).rowcount == 1


async def take_over(conn: Connection, token: UUID) -> StoreClaim:
    """At an administrator's word, whoever leads: the store is this database's."""
    await conn.execute(_ADD, [token])
    return await claim(conn)


async def note_trouble(conn: Connection, epoch: int, trouble: str | None) -> None:
    await conn.execute(_NOTE, [trouble, epoch, trouble])
