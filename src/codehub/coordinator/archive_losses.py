"""Missing archives: one is lost; many at once are another store than it was (emptied, a wrong bucket or prefix).

An archive that a direct look did not find is called lost only after a few others were looked at, of workspaces whose
home is in the store alone, the trash included. When so many of them are missing too that the store must be at fault, it
is taken to be out. That ends when those that were found missing are back, and not when the next few happen to be there.
Where these are, and most of the missing ones too, the store is the right one again: each that is still missing is lost
by itself. Or it ends when an administrator says that they are lost: those that were missing when that was heard, and no
others. The few are looked at by every new leader and every few minutes, too, so that nothing is archived into a wrong
bucket before anybody misses anything.

The trash goes for good once its archive is called lost, and nobody looks at it before. So it is called lost only where
another archive was found.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import structlog

from codehub.coordinator.ports import RowsInStore
from codehub.db.losses import Word
from codehub.drivers.base import Archives
from codehub.model.observation import ArchiveSeen
from codehub.model.suspicion import is_another_store
from codehub.model.workspace import ArchiveKey, WorkspaceId

log = structlog.get_logger(__name__)

InStore = Mapping[WorkspaceId, ArchiveKey]
ReadPage = Callable[[WorkspaceId | None, int], Awaitable[InStore]]  # after an id, so many, in the order of ids

SAMPLE = 20
_MOST_REMEMBERED = 100  # of those that were found missing: each is looked at in every check
_PAGE = 1000
_AT_ONCE = 8
_CHECK_SECONDS = 300.0
_CHECK_OUT_SECONDS = 15.0
_HOLDS_SECONDS = 5.0  # how long what the few showed is believed of others
_THERE = frozenset({ArchiveSeen.LISTED, ArchiveSeen.VERIFIED, ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED})


class ArchiveLosses:
    """What one leader knows of archives that are missing."""

    def __init__(self, archives: Archives, rows: RowsInStore, retention: timedelta) -> None:
        """`retention`: for how long the trash is kept."""
        self._archives, self._rows, self._retention = archives, rows, retention
        self._judging = asyncio.Lock()
        self._judged_at = self._check_at = -_HOLDS_SECONDS
        self._found = (0, 0)
        self._after: WorkspaceId | None = None  # others each time
        self._missing: dict[WorkspaceId, ArchiveKey] = {}  # while it is an outage, what shows that it is one …
        self._were_missing: set[WorkspaceId] = set()  # … and what did, those that are back included
        self.word: Word | None = None  # an administrator's
        self.is_mass = False

    @property
    def outage(self) -> str | None:
        if not self.is_mass:
            return None
        missing, looked = self._found
        return (
            f"Of {looked} archives that were looked for, {missing} are not in the store. This is taken for an outage "
            "until they, or most of them, are back, or until an administrator says that they are lost: "
            "codehub accept-losses archives"
        )

    @property
    def is_check_due(self) -> bool:
        return _now() >= self._check_at or (self.word is not None and self.word.missing is None)

    async def check(self) -> frozenset[WorkspaceId]:
        """Look at a few. Of a word that is news: whom it is about, for whoever is to look at them."""
        self._check_at = _now() + (_CHECK_OUT_SECONDS if self.is_mass else _CHECK_SECONDS)
        news = await self._hear()
        async with self._judging:
            await self._judge({})
        return news

    async def judged(self, workspace_id: WorkspaceId, key: ArchiveKey, *, deleted: bool) -> ArchiveSeen:
        """What to say of one that a direct look did not find."""
        if self._is_accepted(workspace_id):
            return ArchiveSeen.MISSING
        async with self._judging:
            if _now() - self._judged_at >= _HOLDS_SECONDS or self._found[1] == 0:
                counts = not deleted or await self._is_relied_on(workspace_id)
                await self._judge({workspace_id: key} if counts else {})
            missing, looked = self._found
        if self.is_mass or (deleted and missing == looked and await self._is_relied_on(workspace_id)):
            return ArchiveSeen.UNREACHABLE
        return ArchiveSeen.MISSING

    def is_back(self, workspace_id: WorkspaceId) -> None:
        """No word that was given is about it any more."""
        if self._is_accepted(workspace_id) and self.word is not None:
            self.word = replace(self.word, missing=(self.word.missing or frozenset()) - {workspace_id})

    def accept(self, word: Word | None) -> None:
        """The word as it is read now; one that is known stays as we have it."""
        if word is None or self.word is None or self.word.at != word.at:
            self.word = word

    async def _is_relied_on(self, workspace_id: WorkspaceId) -> bool:
        """Whether anybody still needs its archive; of the trash, GC and purges take what nobody does."""
        return workspace_id in await self._rows.in_store_alone_of(self._retention, [workspace_id])

    async def _read(self, after: WorkspaceId | None, limit: int) -> InStore:
        return await self._rows.in_store_alone(self._retention, after, limit)

    def _is_accepted(self, workspace_id: WorkspaceId) -> bool:
        return self.word is not None and workspace_id in (self.word.missing or ())

    async def _hear(self) -> frozenset[WorkspaceId]:
        word = self.word
        if word is None or word.missing is not None:
            return frozenset()
        missing = await self._all_missing()
        if self.word is word:
            self.word = replace(word, missing=missing)
        return missing

    async def _all_missing(self) -> frozenset[WorkspaceId]:
        """By the listing: each is looked at directly again before anything is concluded."""
        listed = {found.key async for page in self._archives.found() for found in page if found.complete}
        missing: set[WorkspaceId] = set()
        after: WorkspaceId | None = None
        while page := await self._read(after, _PAGE):
            missing.update(identity for identity, key in page.items() if key not in listed)
            after = max(page)
        return frozenset(missing)

    async def _judge(self, also: InStore) -> None:
        few = await sample(self._read, self._after)
        self._after = max(few, default=None)
        fresh = self._not_accepted({**few, **also})
        again = self._not_accepted(await self._rows.in_store_alone_of(self._retention, list(self._missing)))
        seen = await looks(self._archives, {**fresh, **again})
        missing = {identity for identity, each in seen.items() if each is ArchiveSeen.MISSING}
        there = {identity for identity, each in seen.items() if each in _THERE}
        if seen and not missing | there:
            return  # it is silent, which others notice
        self._found, self._judged_at = (len(missing), len(missing | there)), _now()
        begins = is_another_store(len(missing & fresh.keys()), len((missing | there) & fresh.keys()))
        if begins or self.is_mass:
            kept = {identity: key for identity, key in again.items() if identity not in there}
            new = {identity: key for identity, key in fresh.items() if identity in missing}
            is_right = bool(there) and fresh.keys() - again.keys() <= there
            if begins or not is_right or is_another_store(len(kept), len(self._were_missing)):
                self._remember({**kept, **new})
            else:
                self._remember({})
        self._note(is_mass=bool(self._missing))

    def _remember(self, missing: InStore) -> None:
        """What shows that it is an outage; nothing where it is none."""
        self._missing = dict([*missing.items()][:_MOST_REMEMBERED])
        self._were_missing = self._were_missing | self._missing.keys() if missing else set()

    def _not_accepted(self, rows: InStore) -> InStore:
        return {identity: key for identity, key in rows.items() if not self._is_accepted(identity)}

    def _note(self, *, is_mass: bool) -> None:
        missing, looked = self._found
        if is_mass and not self.is_mass:
            log.error("many archives are missing at once; this is taken for an outage", missing=missing, of=looked)
        if self.is_mass and not is_mass:
            log.info("the archive store is the right one again", missing=missing, of=looked)
        self.is_mass = is_mass


async def sample(read: ReadPage, after: WorkspaceId | None) -> InStore:
    """A few workspaces whose home is in the store alone; from the start again after the last."""
    rows = await read(after, SAMPLE)
    return rows if len(rows) == SAMPLE or after is None else {**rows, **await read(None, SAMPLE - len(rows))}


async def looks(archives: Archives, keys: InStore) -> Mapping[WorkspaceId, ArchiveSeen]:
    """What a direct look says of each."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def look(key: ArchiveKey) -> ArchiveSeen:
        async with gate:
            return await archives.look(key)

    return dict(zip(keys, await asyncio.gather(*map(look, keys.values())), strict=True))


async def missing_of(archives: Archives, keys: InStore) -> tuple[int, int]:
    """How many of these are not in the store, and of how many it could be told."""
    seen = (await looks(archives, keys)).values()
    missing = sum(each is ArchiveSeen.MISSING for each in seen)
    return missing, missing + sum(each in _THERE for each in seen)


def _now() -> float:
    return asyncio.get_running_loop().time()
