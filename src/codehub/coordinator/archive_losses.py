"""Missing archives: one is lost; many at once are another store than it was (emptied, a wrong bucket or prefix).

An archive that a direct look did not find is called lost only after a few others were looked at, of workspaces whose
home is in the store alone. When so many of them are missing too that the store must be at fault, it is taken to be out,
until they are back or an administrator says that they are lost: those that were missing when that was heard, and no
others. The few are looked at by every new leader and every few minutes, too, so that nothing is archived into a wrong
bucket before anybody misses anything.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from codehub.db.losses import Word
from codehub.drivers.base import Archives
from codehub.model.observation import ArchiveSeen
from codehub.model.suspicion import is_another_store
from codehub.model.workspace import ArchiveKey, WorkspaceId

log = structlog.get_logger(__name__)

Archived = Mapping[WorkspaceId, ArchiveKey]
ReadArchived = Callable[[WorkspaceId | None, int], Awaitable[Archived]]  # after an id, so many, in the order of ids

SAMPLE = 20
_PAGE = 1000
_AT_ONCE = 8
_CHECK_SECONDS = 300.0
_CHECK_OUT_SECONDS = 15.0
_HOLDS_SECONDS = 5.0  # how long what the few showed is believed of others
_THERE = frozenset({ArchiveSeen.LISTED, ArchiveSeen.VERIFIED, ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED})


class ArchiveLosses:
    """What one leader knows of archives that are missing."""

    def __init__(self, archives: Archives, read: ReadArchived) -> None:
        self._archives, self._read = archives, read
        self._judging = asyncio.Lock()
        self._judged_at = self._check_at = -_HOLDS_SECONDS
        self._found = (0, 0)
        self._after: WorkspaceId | None = None  # others each time
        self.word: Word | None = None  # an administrator's
        self.is_mass = False

    @property
    def outage(self) -> str | None:
        if not self.is_mass:
            return None
        missing, looked = self._found
        return (
            f"Of {looked} archives that were looked for, {missing} are not in the store. This is taken for an outage "
            "until they are back, or until an administrator says that they are lost: codehub accept-losses archives"
        )

    @property
    def is_check_due(self) -> bool:
        return _now() >= self._check_at or (self.word is not None and self.word.missing is None)

    async def check(self) -> frozenset[WorkspaceId]:
        """Look at a few. Of a word that is news: whom it is about, for whoever is to look at them."""
        self._check_at = _now() + (_CHECK_OUT_SECONDS if self.is_mass else _CHECK_SECONDS)
        news = await self._hear()
        async with self._judging:
            await self._judge()
        return news

    async def judged(self, workspace_id: WorkspaceId, key: ArchiveKey, *, deleted: bool) -> ArchiveSeen:
        """What to say of one that a direct look did not find."""
        if self._is_accepted(workspace_id):
            return ArchiveSeen.MISSING
        async with self._judging:
            if _now() - self._judged_at >= _HOLDS_SECONDS or self._found[1] == 0:
                await self._judge({} if deleted else {workspace_id: key})
        return ArchiveSeen.UNREACHABLE if self.is_mass else ArchiveSeen.MISSING

    def is_back(self, workspace_id: WorkspaceId) -> None:
        """No word that was given is about it any more."""
        if self._is_accepted(workspace_id) and self.word is not None:
            self.word = replace(self.word, missing=(self.word.missing or frozenset()) - {workspace_id})

    def accept(self, word: Word | None) -> None:
        """The word as it is read now; one that is known stays as we have it."""
        if word is None or self.word is None or self.word.at != word.at:
            self.word = word

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

    async def _judge(self, also: Archived | None = None) -> None:
        few = await sample(self._read, self._after)
        self._after = max(few, default=None)
        rows = {**few, **(also or {})}
        asked = {identity: key for identity, key in rows.items() if not self._is_accepted(identity)}
        missing, looked = await missing_of(self._archives, list(asked.values()))
        if asked and looked == 0:
            return  # it is silent, which others notice
        self._found, self._judged_at = (missing, looked), _now()
        is_mass = is_another_store(missing, looked)
        if is_mass and not self.is_mass:
            log.error("many archives are missing at once; this is taken for an outage", missing=missing, of=looked)
        if self.is_mass and not is_mass:
            log.info("so many archives are no longer missing", missing=missing, of=looked)
        self.is_mass = is_mass


async def sample(read: ReadArchived, after: WorkspaceId | None) -> Archived:
    """A few workspaces whose home is in the store alone; from the start again after the last."""
    rows = await read(after, SAMPLE)
    return rows if len(rows) == SAMPLE or after is None else {**rows, **await read(None, SAMPLE - len(rows))}


async def missing_of(archives: Archives, keys: Sequence[ArchiveKey]) -> tuple[int, int]:
    """How many of these are not in the store, and of how many it could be told."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def look(key: ArchiveKey) -> ArchiveSeen:
        async with gate:
            return await archives.look(key)

    seen = await asyncio.gather(*map(look, keys))
    missing = sum(each is ArchiveSeen.MISSING for each in seen)
    return missing, missing + sum(each in _THERE for each in seen)


def _now() -> float:
    return asyncio.get_running_loop().time()
