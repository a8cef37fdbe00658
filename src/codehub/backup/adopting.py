"""The newest archives of a restored database: which of them may be believed, and which homes they now are.

Only what was read back and found whole takes the place of what a row names; else the next newest is tried. What could
not be read at all is left undecided, and said.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from codehub.backup.standing import Better
from codehub.db.adopting import Adoption
from codehub.drivers.base import Archives, Backend
from codehub.errors import CodeHubError, DriverError
from codehub.model.observation import ArchiveSeen
from codehub.model.observe import is_live, lacks_mark
from codehub.model.workspace import ArchiveKey, HomeContext, InstanceBackend, WorkspaceId

log = structlog.get_logger(__name__)

_AT_ONCE = 4
_LOOK_SECONDS = 60.0
_SILENT = frozenset({ArchiveSeen.UNREACHABLE, ArchiveSeen.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to adopt; and what was not: archives that are damaged, and workspaces whose newest could not be read."""

    adoptions: Sequence[Adoption]
    damaged: Sequence[ArchiveKey]
    undecided: Sequence[WorkspaceId]


@dataclass(frozen=True, slots=True)
class Homes:
    """Which homes are on no volume anywhere, and which are the whole volume that their row names.

    The latter are newer than any archive that the database lost: what they descend from is theirs to say, and a newer
    archive of a lost future must not pass for an older state of them.
    """

    absent: Collection[WorkspaceId]
    live: Collection[WorkspaceId]


async def choose(adoptable: Mapping[WorkspaceId, Better], archives: Archives) -> Chosen:
    """The newest archive of each that is whole, every byte of it."""
    adoptions: list[Adoption] = []
    damaged: list[ArchiveKey] = []
    undecided: list[WorkspaceId] = []
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(identity: WorkspaceId, better: Better) -> None:
        for archive in better.archives:
            key = ArchiveKey(archive.key)
            async with turns:
                seen = await _verified(archives, key)
            if seen is ArchiveSeen.VERIFIED:
                adoptions.append(Adoption(identity, better.old, key, archive.modified_at))
                return
            if seen in _SILENT:
                undecided.append(identity)
                return
            damaged.append(key)

    async with asyncio.TaskGroup() as group:
        for identity, better in adoptable.items():
            group.create_task(one(identity, better))
    return Chosen(sorted(adoptions, key=lambda one: one.workspace), sorted(damaged), sorted(undecided))


async def _verified(archives: Archives, key: ArchiveKey) -> ArchiveSeen:
    """An answer that nobody understands is none; it is about this archive alone."""
    try:
        return await archives.verify(key)
    except DriverError as error:
        log.warning("an archive could not be read", archive=key, cause=str(error))
        return ArchiveSeen.UNREACHABLE


async def look_for_homes(
    backends: Mapping[InstanceBackend, Backend], wanted: Mapping[WorkspaceId, HomeContext]
) -> Homes:
    """Where these homes are, by what their rows say of them; nothing is called absent unless every backend answered.

    A volume without its mark is no home: its removal may have begun, once the home was in that newer archive.
    """
    absent, live = set(wanted), set[WorkspaceId]()
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            for backend in backends.values():
                for who, seen in (await backend.volumes.observe()).items():
                    if who in wanted and not lacks_mark(seen):
                        absent.discard(who)
                        live |= {who} if is_live(wanted[who], seen) else set()
            for backend in backends.values():
                for identity in list(absent):
                    seen = await backend.volumes.look(identity)
                    if not (lacks_mark(seen) if seen.exists else seen.confirmed):
                        absent.discard(identity)
    except (CodeHubError, TimeoutError):
        return Homes(frozenset(), live)
    return Homes(absent, live)
