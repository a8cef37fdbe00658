"""How a database and the archive store stand to each other: what the rows need, and what the store has.

A listing is no proof of an absence: whatever it lacks is looked at directly once more, and while the store cannot be
asked nothing is called missing.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from codehub.backup.file import ArchiveNeeded
from codehub.drivers.base import Archives
from codehub.errors import DriverError
from codehub.model.gc import FoundArchive, KnownWorkspace
from codehub.model.names import archive_owner
from codehub.model.observation import ArchiveSeen
from codehub.model.workspace import ArchiveKey, WorkspaceId

_LIST_SECONDS = 600.0
_ABSENT = frozenset({ArchiveSeen.MISSING, ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED})


@dataclass(frozen=True, slots=True)
class Missing:
    """A row whose archive is not in the store, and the newest archive of that workspace that is."""

    workspace: WorkspaceId
    key: ArchiveKey
    newest: ArchiveKey | None


@dataclass(frozen=True, slots=True)
class Newer:
    """A complete archive that was made after the row's own, or after the backup."""

    key: ArchiveKey
    modified_at: datetime
    of_known: bool  # its workspace is in the database


@dataclass(frozen=True, slots=True)
class Standing:
    missing: Sequence[Missing]
    newer: Sequence[Newer]
    adoptable: Mapping[WorkspaceId, tuple[ArchiveKey | None, ArchiveKey]]  # what its row says, and the newest there is
    trouble: str = ""  # why the store could not be asked; everything else is empty then


async def listed(archives: Archives) -> list[FoundArchive]:
    """Raises DriverError or TimeoutError when the store does not answer."""
    async with asyncio.timeout(_LIST_SECONDS):
        return [archive async for page in archives.found() for archive in page]


def needed(known: Iterable[KnownWorkspace]) -> list[tuple[WorkspaceId, ArchiveKey]]:
    """Each archive that a row refers to; a purged workspace needs none."""
    found = []
    for row in known:
        if row.archive_key is not None and row.purged_at is None:
            found.append((row.id, row.archive_key))
        elif row.source_archive is not None and row.archive_key is None and row.deleted_at is None:
            found.append((row.id, row.source_archive))
    return found


async def needs(known: Iterable[KnownWorkspace], archives: Archives) -> tuple[list[ArchiveNeeded], str]:
    """For the manifest: what the rows need and whether the store has it; and why it could not be asked."""
    wanted = needed(known)
    try:
        there = {archive.key for archive in await listed(archives) if archive.complete}
    except (DriverError, TimeoutError) as error:
        trouble = str(error) or "It did not answer in time."
        return [ArchiveNeeded(str(identity), key, None) for identity, key in wanted], trouble
    return [ArchiveNeeded(str(identity), key, await _is_there(key, there, archives)) for identity, key in wanted], ""


async def compare(known: Sequence[KnownWorkspace], archives: Archives, since: datetime) -> Standing:
    """What a database of that moment lacks in the store, and what the store has beyond it."""
    try:
        found = [archive for archive in await listed(archives) if archive.complete]
    except (DriverError, TimeoutError) as error:
        return Standing((), (), {}, str(error) or "It did not answer in time.")
    there = {archive.key for archive in found}
    newest = _newest(found)
    missing = [
        Missing(identity, key, _key_of(newest.get(str(identity))))
        for identity, key in needed(known)
        if await _is_there(key, there, archives) is False
    ]
    living = {str(row.id): row for row in known if row.deleted_at is None}
    ids = {str(row.id) for row in known}
    referred = {key for _, key in needed(known)}
    newer = [
        Newer(ArchiveKey(archive.key), archive.modified_at, owner in ids)
        for archive in found
        if (owner := archive_owner(archive.key)) is not None and archive.key not in referred
        if owner not in ids or archive.modified_at > since
    ]
    modified = {archive.key: archive.modified_at for archive in found}
    gone = {one.key for one in missing}
    adoptable = {
        row.id: (row.archive_key, ArchiveKey(last.key))
        for identity, row in living.items()
        if (last := newest.get(identity)) is not None and _is_better(last, row.archive_key, modified, gone, since)
    }
    return Standing(missing, sorted(newer, key=lambda one: one.key), adoptable)


def _is_better(
    last: FoundArchive,
    own: ArchiveKey | None,
    modified: Mapping[str, datetime],
    gone: Collection[ArchiveKey],
    since: datetime,
) -> bool:
    """Whether the newest archive of a workspace should take the place of the one that its row names."""
    if own is None:
        return last.modified_at > since  # its first one, made since
    if own in gone:
        return True
    # One that was not listed, and yet is not known to be gone, stays: what was listed may be older.
    return own in modified and last.modified_at > max(modified[own], since)


async def _is_there(key: ArchiveKey, there: set[str], archives: Archives) -> bool | None:
    if key in there:
        return True
    seen = await archives.look(key)
    if seen in _ABSENT:
        return False
    return True if seen is ArchiveSeen.LISTED else None


def _newest(found: Iterable[FoundArchive]) -> Mapping[str, FoundArchive]:
    newest: dict[str, FoundArchive] = {}
    for archive in found:
        owner = archive_owner(archive.key)
        if owner is not None and (owner not in newest or archive.modified_at > newest[owner].modified_at):
            newest[owner] = archive
    return newest


def _key_of(archive: FoundArchive | None) -> ArchiveKey | None:
    return None if archive is None else ArchiveKey(archive.key)
