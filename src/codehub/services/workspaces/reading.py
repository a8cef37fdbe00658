"""Reading workspaces: one, a page of them, and what happened to one."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from codehub.db import history, listing
from codehub.db.history import HistoryLine, HistoryPlace
from codehub.db.listing import Filter, Place, Version
from codehub.db.pool import Connection, Pool, connection, read
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import find
from codehub.services.workspaces.showing import Encoded, encoded
from codehub.services.workspaces.terms import Terms

_MOST_KEPT = 8192


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a list; `next` is where the rest begins, if there is more."""

    items: Sequence[Encoded]
    next: Place | None


class Shelf:
    """Objects that were shown lately, by which writing of the row they show: a row that was written has left it."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[WorkspaceId, Encoded] = OrderedDict()

    async def all_of(self, conn: Connection, versions: Sequence[Version], retention: timedelta) -> list[Encoded]:
        """These, in this order; only what is not here is read and made. One that cannot be read is left out."""
        found: dict[WorkspaceId, Encoded] = {}
        missing: list[WorkspaceId] = []
        kept = self._kept
        for version in versions:
            here = kept.get(version.id)
            if here is not None and here.stamp == version.stamp:
                found[version.id] = here
            else:
                missing.append(version.id)
        if missing:
            for identity, shown in (await listing.by_ids(conn, missing)).items():
                found[identity] = kept[identity] = encoded(shown, retention)
                kept.move_to_end(identity)
            while len(kept) > self._most:
                kept.popitem(last=False)
        return [found[version.id] for version in versions if version.id in found]


async def page(pool: Pool, terms: Terms, shelf: Shelf, asked: Filter, *, after: Place | None, limit: int) -> Page:
    """Whose workspaces are listed is the caller's to decide, in the filter."""

    async def work(conn: Connection) -> tuple[Sequence[Version], Sequence[Encoded]]:
        versions = await listing.page(conn, asked, after, limit + 1)
        return versions, await shelf.all_of(conn, versions[:limit], terms.retention)

    versions, items = await read(pool, work)
    last = versions[limit - 1] if len(versions) > limit else None
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
