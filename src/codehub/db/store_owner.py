"""Which markers of the archive store are this database's own (ADR 25): the newest tokens, and what is wrong with it."""

from uuid import UUID

from codehub.db.lost_commits import read_count
from codehub.db.pool import Connection
from codehub.model.store_owner import StoreClaim

_REMEMBERED = 16  # a leader that was frozen may leave an older one

_READ = "SELECT store_tokens FROM leadership"
# The newest first; then the one that lies in the store, if it is known, however often a newer one did not get there.
_ADD = f"""
UPDATE leadership SET store_tokens = (
    array_prepend(%(token)s::uuid, ARRAY(
        SELECT known.token FROM unnest(store_tokens) WITH ORDINALITY AS known (token, place)
        WHERE known.token <> %(token)s
        ORDER BY known.token IS DISTINCT FROM %(in_store)s::uuid, known.place
    ))
)[1:{_REMEMBERED}]
"""  # noqa: S608 - a number
_ADD_AS = f"{_ADD} WHERE epoch = %(epoch)s"
_NOTE = "UPDATE leadership SET store_trouble = %s WHERE epoch = %s AND store_trouble IS DISTINCT FROM %s"


async def claim(conn: Connection) -> StoreClaim:
    row = await (await conn.execute(_READ)).fetchone()
    assert row is not None
    return StoreClaim(tuple(row[0]), (await read_count(conn)).database)


async def add_token(conn: Connection, epoch: int, token: UUID, in_store: UUID | None) -> bool:
    """Whether it was: not for a leader that was replaced. `in_store` is the marker's, as it was just read."""
    said = {"token": token, "in_store": in_store, "epoch": epoch}
    return (await conn.execute(_ADD_AS, said)).rowcount == 1


async def take_over(conn: Connection, token: UUID, in_store: UUID | None) -> StoreClaim:
    """At an administrator's word, whoever leads: the store is this database's."""
    await conn.execute(_ADD, {"token": token, "in_store": in_store})
    return await claim(conn)


async def note_trouble(conn: Connection, epoch: int, trouble: str | None) -> None:
    await conn.execute(_NOTE, [trouble, epoch, trouble])
