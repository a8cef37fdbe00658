"""The archive store of the fake."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from codehub.drivers.base import ArchiveFile
from codehub.drivers.memory.faults import Misbehaviour, TimedOut
from codehub.drivers.memory.things import Stored
from codehub.errors import ActionFailed, TerminalError, Unreachable
from codehub.model.gc import FoundArchive
from codehub.model.names import parse_archive_key
from codehub.model.observation import ArchiveSeen
from codehub.model.store_owner import StoreMarker
from codehub.model.workspace import ArchiveKey, ErrorReason, WorkspaceId

if TYPE_CHECKING:
    from codehub.drivers.memory.world import MemoryWorld

PAGE = 100


class MemoryArchives:
    """Implements drivers.base.Archives."""

    def __init__(self, world: "MemoryWorld") -> None:
        self._world = world

    async def look(self, key: ArchiveKey) -> ArchiveSeen:
        return await self._see("archives.look", key, _look)

    async def verify(self, key: ArchiveKey, moved: Callable[[int], None] = lambda _: None) -> ArchiveSeen:
        seen = await self._see("archives.verify", key, _verify)
        if seen is ArchiveSeen.VERIFIED:
            moved(1)
        return seen

    async def _see(self, verb: str, key: ArchiveKey, look: Callable[[Stored | None], ArchiveSeen]) -> ArchiveSeen:
        name = parse_archive_key(key)
        try:
            return await self._world.faults.call(
                verb, name.workspace_id, lambda: look(self._world.stored.get(key)), ArchiveSeen.MISSING
            )
        except TimedOut:
            return ArchiveSeen.TIMEOUT
        except Unreachable:
            return ArchiveSeen.UNREACHABLE

    async def marker(self) -> StoreMarker | None:
        return await self._world.faults.call("archives.marker", None, lambda: self._world.store_marker, None)

    async def leave_marker(self, marker: StoreMarker) -> None:
        def effect() -> None:
            self._world.store_marker = marker

        await self._world.faults.call("archives.leave_marker", None, effect, None)

    async def found(self, whose: WorkspaceId | None = None) -> AsyncIterator[Sequence[FoundArchive]]:
        def effect() -> list[FoundArchive]:
            hidden = self._world.faults.hides("archives.found")
            return [
                FoundArchive(key, stored.modified_at, stored.has_object and stored.has_meta)
                for key, stored in sorted(self._world.stored.items())
                if not hidden(owner := parse_archive_key(key).workspace_id) and whose in (None, owner)
            ]

        none: list[FoundArchive] = []
        everything = await self._world.faults.call("archives.found", None, effect, none)
        for start in range(0, len(everything), PAGE):
            yield everything[start : start + PAGE]

    async def describe(self, key: ArchiveKey) -> ArchiveFile:
        data = await self._bytes("archives.describe", key)
        return ArchiveFile(len(data), hashlib.sha256(data).hexdigest(), hashlib.sha256(data).hexdigest())

    async def part(self, key: ArchiveKey, file: ArchiveFile, start: int, size: int) -> bytes:
        data = await self._bytes("archives.part", key)
        if hashlib.sha256(data).hexdigest() != file.mark:
            raise Unreachable(f"{key} was replaced while it was read.")
        return data[start : start + size]

    async def _bytes(self, verb: str, key: ArchiveKey) -> bytes:
        """Something that stands for what an archive holds."""

        def effect() -> bytes:
            stored = self._world.stored.get(key)
            seen = _look(stored)
            if stored is None or seen is ArchiveSeen.MISSING:
                raise ActionFailed(f"There is no archive {key}.")
            if seen is not ArchiveSeen.LISTED:
                raise TerminalError(ErrorReason.ARCHIVE_CORRUPTED, f"The archive {key} is {seen.name}.")
            return json.dumps(stored.home, sort_keys=True, default=str).encode()

        return await self._world.faults.call(verb, parse_archive_key(key).workspace_id, effect, b"")

    async def make_empty(self, key: ArchiveKey) -> None:
        await self._put("archives.make_empty", key, lambda: Stored({}, self._world.clock()))

    async def copy(self, source: ArchiveKey, key: ArchiveKey) -> None:
        parse_archive_key(source)

        def content() -> Stored:
            stored = self._world.stored.get(source)
            seen = _look(stored)
            if stored is None or seen is not ArchiveSeen.LISTED:
                reason = ErrorReason.ARCHIVE_CORRUPTED
                raise TerminalError(reason, f"The archive {source} cannot be copied: it is {seen.name}.")
            return Stored(dict(stored.home), self._world.clock(), damaged=stored.damaged)

        await self._put("archives.copy", key, content)

    async def _put(self, verb: str, key: ArchiveKey, content: Callable[[], Stored]) -> None:
        owner = parse_archive_key(key).workspace_id

        def effect() -> None:
            made = content()
            if self._world.faults.strikes(verb, owner, Misbehaviour.FULL) is not None:
                raise Unreachable("The archive store is full.")
            if _look(self._world.stored.get(key)) is not ArchiveSeen.LISTED:
                self._world.stored[key] = made

        await self._world.faults.call(verb, owner, effect, None)

    async def delete(self, key: ArchiveKey) -> None:
        def effect() -> None:
            self._world.stored.pop(key, None)

        await self._world.faults.call("archives.delete", parse_archive_key(key).workspace_id, effect, None)


def _look(stored: Stored | None) -> ArchiveSeen:
    if stored is None or not stored.has_object or not stored.has_meta:
        return ArchiveSeen.MISSING
    if stored.expired:
        return ArchiveSeen.EXPIRED
    return ArchiveSeen.CORRUPTED if stored.misfit else ArchiveSeen.LISTED


def _verify(stored: Stored | None) -> ArchiveSeen:
    seen = _look(stored)
    if stored is None or seen is not ArchiveSeen.LISTED:
        return seen
    return ArchiveSeen.CORRUPTED if stored.damaged else ArchiveSeen.VERIFIED
