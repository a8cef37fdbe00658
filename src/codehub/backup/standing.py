"""How a database and the archive store stand to each other: what the rows need, and what the store has.

A listing is no proof of an absence: whatever it lacks is looked at directly once more, and while the store cannot be
asked nothing is called missing.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from codehub.backup.file import ArchiveNeeded
from codehub.drivers.base import Archives
from codehub.errors import DriverError
from codehub.model.gc import FoundArchive, KnownWorkspace, Memory
from codehub.model.names import archive_key, archive_owner
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
    """A complete archive that the database lost, or one of a workspace that it does not know."""

    key: ArchiveKey
    modified_at: datetime
    of_known: bool  # its workspace is in the database


@dataclass(frozen=True, slots=True)
class Better:
    """Archives that are better than the one a row names, the newest first."""

    old: ArchiveKey | None
    archives: Sequence[FoundArchive]


@dataclass(frozen=True, slots=True)
class Standing:
    missing: Sequence[Missing]
    newer: Sequence[Newer]
    adoptable: Mapping[WorkspaceId, Better]  # rows in the trash too, but for purged ones
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


async def compare(known: Sequence[KnownWorkspace], archives: Archives, since: datetime, memory: Memory) -> Standing:
    """What a database of that moment lacks in the store, and what the store has beyond it.

    An archive that was complete before that moment is beyond it, too, if the operation that made it had not ended: it
    may have been committed, and its volume removed, since. The restored database does not remember it
    (db/replacing.py).
    """
    try:
        found = [archive for archive in await listed(archives) if archive.complete]
    except (DriverError, TimeoutError) as error:
        return Standing((), (), {}, str(error) or "It did not answer in time.")
    there = {archive.key for archive in found}
    by_owner = _by_owner(found)
    missing = [
        Missing(identity, key, _newest(by_owner.get(str(identity), ())))
        for identity, key in needed(known)
        if await _is_there(key, there, archives) is False
    ]
    ids = {str(row.id) for row in known}
    ended = {archive_key(row.id, row.op_id) for row in known if row.op_id is not None}  # what had not, has another now
    memory = replace(memory, keys={*memory.keys, *ended})
    referred = {key for _, key in needed(known)}
    newer = [
        Newer(ArchiveKey(archive.key), archive.modified_at, owner in ids)
        for archive in found
        if (owner := archive_owner(archive.key)) is not None and archive.key not in referred
        if owner not in ids or _is_lost(archive, since, memory)
    ]
    modified = {archive.key: archive.modified_at for archive in found}
    gone = {one.key for one in missing}
    adoptable = {}
    for row in known:
        of_row = by_owner.get(str(row.id), ())
        lost = [archive for archive in of_row if row.archive_key in gone or _is_lost(archive, since, memory)]
        if row.purged_at is None and (better := _better(row, lost, modified, gone)):
            adoptable[row.id] = Better(row.archive_key, better)
    return Standing(missing, sorted(newer, key=lambda one: one.key), adoptable)


def _is_lost(archive: FoundArchive, since: datetime, memory: Memory) -> bool:
    """Whether the database lost whatever became of this archive."""
    remembered = archive.key in memory.keys or archive.modified_at < memory.since
    return archive.modified_at > since or not remembered


def _better(
    row: KnownWorkspace,
    archives: Iterable[FoundArchive],
    modified: Mapping[str, datetime],
    gone: Collection[ArchiveKey],
) -> list[FoundArchive]:
    """Those that should take the place of the one that the row names, the newest first."""
    own = row.archive_key
    if own is not None and own not in modified and own not in gone:
        return []  # not listed, and yet not known to be gone: what was listed may be older
    own_at = modified.get(own) if own is not None else None  # None: its first one, or a lost one
    newer = [archive for archive in archives if archive.key != own and (own_at is None or archive.modified_at > own_at)]
    return sorted(newer, key=lambda archive: archive.modified_at, reverse=True)


async def _is_there(key: ArchiveKey, there: set[str], archives: Archives) -> bool | None:
    if key in there:
        return True
    try:
        seen = await archives.look(key)
    except DriverError:  # an answer about this one that nobody understands
        return None
    if seen in _ABSENT:
        return False
    return True if seen is ArchiveSeen.LISTED else None


def _by_owner(found: Iterable[FoundArchive]) -> Mapping[str, list[FoundArchive]]:
    owners: dict[str, list[FoundArchive]] = {}
    for archive in found:
        if (owner := archive_owner(archive.key)) is not None:
            owners.setdefault(owner, []).append(archive)
    return owners


def _newest(found: Iterable[FoundArchive]) -> ArchiveKey | None:
    newest = max(found, key=lambda archive: archive.modified_at, default=None)
    return None if newest is None else ArchiveKey(newest.key)
