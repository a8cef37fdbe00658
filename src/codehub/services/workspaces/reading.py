"""Reading workspaces: one, a page of them, and what happened to one."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from codehub.db import history, listing
from codehub.db.history import HistoryLine, HistoryPlace
from codehub.db.listing import Filter, PageKey, Place, Version
from codehub.db.pool import Connection, Pool, connection, read
from codehub.db.sharing import read_shared
from codehub.model.workspace import OpId, WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import find
from codehub.services.workspaces.showing import Encoded, encoded
from codehub.services.workspaces.terms import Terms

_MOST_KEPT = 8192
_AT_ONCE = 200  # rows that are made into objects before others get a turn


@dataclass(frozen=True)
class Page:
    """Some of a list; `next` is where the rest begins, if there is more. Everybody who asked at once shares it."""

    items: Sequence[Encoded]
    next: Place | None

    @cached_property
    def busy(self) -> Mapping[WorkspaceId, OpId]:
        """Those whose progress is to be added, and of which operation."""
        return {each.id: each.op_id for each in self.items if each.op_id is not None}

    @cached_property
    def json(self) -> bytes:
        """The items without their progress, one after the other."""
        return b",".join([each.json for each in self.items])


_EMPTY = Page((), None)


class Shelf:
    """Pages of workspaces, put together from objects that were shown lately.

    Each is kept with which writing of its row it shows, so one whose row was written since is not shown again.
    """

    def __init__(self, pool: Pool, retention: timedelta, most: int = _MOST_KEPT) -> None:
        self._pool = pool
        self._retention = retention
        self._most = most
        self._kept: OrderedDict[WorkspaceId, Encoded] = OrderedDict()

    async def page(self, asked: Filter, *, after: Place | None, limit: int) -> Page:
        """Whose workspaces are listed is the caller's to decide, in the filter."""
        key = asked, after, limit + 1
        if asked.text:  # which may have to look at everything
            return (await read(self._pool, lambda conn: self._pages(conn, [key])))[key]
        return await read_shared(self._pool, self._pages, key) or _EMPTY

    async def _pages(self, conn: Connection, keys: Sequence[PageKey]) -> dict[PageKey, Page]:
        found = await listing.pages(conn, keys)
        objects = await self._objects(conn, {each.id: each.stamp for rows in found.values() for each in rows})
        return {key: _page(rows, objects, key[2] - 1) for key, rows in found.items()}

    async def _objects(self, conn: Connection, stamps: Mapping[WorkspaceId, str]) -> dict[WorkspaceId, Encoded]:
        """Only what is not here is read and made. What cannot be read is left out."""
        kept = self._kept
        found = {which: here for which, stamp in stamps.items() if (here := kept.get(which)) and here.stamp == stamp}
        missing = [which for which in stamps if which not in found]
        for start in range(0, len(missing), _AT_ONCE):
            rows = await listing.by_ids(conn, missing[start : start + _AT_ONCE])
            for which, shown in rows.items():
                found[which] = kept[which] = encoded(shown, self._retention)
                kept.move_to_end(which)
        while len(kept) > self._most:
            kept.popitem(last=False)
        return found


def _page(rows: Sequence[Version], objects: Mapping[WorkspaceId, Encoded], limit: int) -> Page:
    last = rows[limit - 1] if len(rows) > limit else None
    items = [objects[each.id] for each in rows[:limit] if each.id in objects]
    return Page(items, None if last is None else Place(last.created_at, last.id))


async def one(pool: Pool, terms: Terms, actor: Actor, identity: WorkspaceId) -> Encoded:
    return encoded(await read(pool, lambda conn: find(conn, actor, identity)), terms.retention)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some lines of a history, newest first."""

    items: Sequence[HistoryLine]
    next: HistoryPlace | None


async def history_of(
    pool: Pool, actor: Actor, identity: WorkspaceId, after: HistoryPlace | None, limit: int
) -> HistoryPage:
    async with connection(pool) as conn:
        await find(conn, actor, identity)
        lines = await history.page(conn, identity, after, limit + 1)
    last = lines[limit - 1] if len(lines) > limit else None
    return HistoryPage(lines[:limit], None if last is None else HistoryPlace(last.at, last.id))
