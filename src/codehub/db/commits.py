"""A tick's results and their history, in one transaction, whatever a single row may be worth.

A row that the database refuses (it breaks a CHECK, a value does not fit) is a mistake of ours about one workspace. It
is found by halving, logged with its id and left out; all the others are written as if it had not been there.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import psycopg
import structlog

from codehub.db.pool import Connection
from codehub.db.statuses import HistoryEntry, StatusChange, Written, record_history, write_statuses
from codehub.model.workspace import WorkspaceId

log = structlog.get_logger(__name__)

_REFUSED = (psycopg.IntegrityError, psycopg.DataError)

T = TypeVar("T")


async def commit_statuses(
    conn: Connection, epoch: int, changes: Sequence[StatusChange], history: Iterable[HistoryEntry], *, after: int = 0
) -> Written:
    """Write what still applies, and the history of it; which rows were written. StaleLeader: nothing was.

    `after` is a commit that the database has confirmed (statuses.py).
    """
    history = list(history)
    try:
        async with conn.transaction():
            written = await write_statuses(conn, epoch, changes, after=after)
            await record_history(conn, [entry for entry in history if entry.workspace_id in written.ids])
            return written
    except _REFUSED as error:
        log.warning("a tick's results were refused; trying them in parts", cause=_cause(error))
    return await _in_parts(conn, epoch, changes, history, after)


async def _in_parts(
    conn: Connection, epoch: int, changes: Sequence[StatusChange], history: Sequence[HistoryEntry], after: int
) -> Written:
    ids: set[WorkspaceId] = set()
    commit = after

    async def write(part: Sequence[StatusChange]) -> None:
        nonlocal commit
        written = await write_statuses(conn, epoch, part, after=after)
        ids.update(written.ids)
        commit = written.commit

    async def record(part: Sequence[HistoryEntry]) -> None:
        await record_history(conn, part)

    async with conn.transaction():
        # In the order of ids, so that the parts lock their rows in the order that every bulk write has.
        ordered = sorted(changes, key=lambda change: change.was.id)
        await _by_halves(conn, ordered, write, lambda change: change.was.id)
        # A line of history that is refused must not cost the status that it speaks of.
        entries = [entry for entry in history if entry.workspace_id in ids]
        await _by_halves(conn, entries, record, lambda entry: entry.workspace_id)
    return Written(ids, commit)


async def _by_halves(
    conn: Connection,
    items: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[None]],
    whose: Callable[[T], WorkspaceId],
) -> None:
    """Write everything but the single items that are refused."""
    if not items:
        return
    try:
        async with conn.transaction():  # a savepoint: what was written before stays
            await write(items)
    except _REFUSED as error:
        if len(items) == 1:
            whom = str(whose(items[0]))
            log.error("left out: the database refuses it", workspace_id=whom, cause=_cause(error))  # noqa: TRY400 - below
            return
        middle = len(items) // 2
        await _by_halves(conn, items[:middle], write, whose)
        await _by_halves(conn, items[middle:], write, whose)


def _cause(error: psycopg.Error) -> str:
    """The server's own sentence. Its detail, which a traceback would show, quotes the whole row."""
    return error.diag.message_primary or type(error).__name__
