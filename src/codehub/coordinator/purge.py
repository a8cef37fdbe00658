"""Purges: what an owner deleted for good is gone from the store within a minute, not with the next collection.

The rules are GC's (model/gc.py), without its wait: nothing of such a workspace is left that could still write, its
owner has said that nothing is to be kept, and no undelete takes that back. What remains holds here, too: the store is
listed before the rows are read, an archive that another workspace is being made from stays, one that the database does
not remember stays, and leadership is confirmed before each deletion. What cannot be removed now is tried again at the
next run, then after ever more of them: each costs a listing, and what an administrator is to decide about may stay.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from codehub.coordinator.ports import Leadership, PurgeRecords, Refusal
from codehub.drivers.base import Archives
from codehub.errors import DriverError, Unreachable
from codehub.model import gc
from codehub.model.gc import FoundArchive, GcRules, Memory
from codehub.model.workspace import ArchiveKey, WorkspaceId

log = structlog.get_logger(__name__)

PERIOD_SECONDS = 15.0
_PAGE = 100
_MOST_RUNS = 240  # an hour


@dataclass(frozen=True, slots=True)
class _Rest:
    """How many runs leave it alone from now on, and how many did before that."""

    runs_left: int = 0
    runs: int = 0

    def grown(self) -> "_Rest":
        """None, then 1, 3, 7 … runs."""
        return _Rest(self.runs, min(self.runs * 2 + 1, _MOST_RUNS))


class Purger:
    """One run after the other; whoever lacks an archive afterwards is looked at by the controller at once."""

    def __init__(
        self,
        records: PurgeRecords,
        archives: Archives,
        leadership: Leadership,
        rules: GcRules,
        *,
        on_change: Callable[[Collection[WorkspaceId]], None],
        refusal: Refusal,
        page: int = _PAGE,
    ) -> None:
        self._records = records
        self._archives = archives
        self._leadership = leadership
        self._rules = replace(rules, orphan_delay=timedelta(0))
        self._on_change = on_change
        self._refusal = refusal
        self._page = page
        self._rests: dict[WorkspaceId, _Rest] = {}  # of whom something was left

    async def run_once(self) -> None:
        """Raises what keeps it from going on: the store or the database is out."""
        after: WorkspaceId | None = None
        seen: set[WorkspaceId] = set()
        while page := await self._records.purged(after, self._page):
            for identity in page:
                if not self._leadership.is_fresh():
                    return
                rest = self._rests.get(identity, _Rest())
                if rest.runs_left > 0:
                    self._rests[identity] = replace(rest, runs_left=rest.runs_left - 1)
                elif await self._purge(identity):
                    self._rests.pop(identity, None)
                else:
                    self._rests[identity] = rest.grown()
            seen.update(page)
            after = page[-1]
        self._rests = {identity: rest for identity, rest in self._rests.items() if identity in seen}

    async def _purge(self, identity: WorkspaceId) -> bool:
        """Whether nothing of it is left."""
        found = [archive async for some in self._archives.found(identity) for archive in some]
        if found and await self._refusal() is not None:
            return False  # it is told by whoever knows why
        deleted: list[ArchiveKey] = []
        try:
            for key in await self._unneeded(identity, found):
                if not self._leadership.is_fresh():
                    return False
                try:
                    await self._archives.delete(key)
                except Unreachable:
                    raise
                except DriverError as error:
                    log.warning("an archive that was purged could not be deleted", archive=key, cause=str(error))
                else:
                    deleted.append(key)
        finally:  # what is gone is gone, whatever ended this
            if deleted:
                log.info("purged", workspace_id=str(identity), archives=len(deleted))
                await self._records.forget(deleted)
            if deleted or not found:
                self._on_change([identity])
        return bool(found) and len(deleted) == len(found)

    async def _unneeded(self, identity: WorkspaceId, found: Sequence[FoundArchive]) -> Sequence[ArchiveKey]:
        """By GC's rules, from the rows as they are after the listing."""
        known = await self._records.known_of([identity], [archive.key for archive in found])
        row = next((row for row in known if row.id == identity), None)
        if row is None or row.purged_at is None or row.deleted_at is None:
            return ()
        now = await self._records.now()
        candidates = gc.unneeded(found, known, now, self._rules)
        keys = [ArchiveKey(archive.key) for archive in candidates.archives]
        memory = Memory(await self._records.remembered(keys), await self._records.remembers_since())
        return gc.plan(candidates, memory, dict.fromkeys(keys, now), now, self._rules, override=True).delete
