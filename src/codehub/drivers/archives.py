"""The archive store: what counts as an archive, on a folder (`file://`) or a bucket of any S3 server (`s3://`).

An archive is an object and, written last, its meta beside it (archive_store/meta.py). Looking never lies: MISSING,
CORRUPTED and EXPIRED are said only when the store answered; refused credentials or a missing bucket are UNREACHABLE.
VERIFIED means that every byte of this very object was read back and hashed by this process within the last hour, and
is on the disk where the store is a folder. Which object it is, the store says in this call (ADR 19,
archive_store/read_back.py). No checksum that S3 keeps covers a whole object uploaded in parts: there is none to go by.

Nothing else is cached, and no request is retried for long: the controller looks again.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

import structlog

from codehub.drivers.archive_store import owner
from codehub.drivers.archive_store.bucket import BucketObjects, S3Options
from codehub.drivers.archive_store.folder import FolderObjects
from codehub.drivers.archive_store.meta import EMPTY_ARCHIVE, MOST_BYTES, Meta, parse
from codehub.drivers.archive_store.objects import Absent, Expired, Limits, Objects, Stamp, TimedOut
from codehub.drivers.archive_store.read_back import ReadBack
from codehub.drivers.base import ArchiveFile
from codehub.errors import DriverError, SettingsError, TerminalError, Unreachable
from codehub.model.gc import FoundArchive
from codehub.model.names import META_SUFFIX, archive_key, meta_key, parse_archive_key
from codehub.model.observation import ArchiveSeen
from codehub.model.store_owner import StoreMarker
from codehub.model.workspace import ArchiveKey, ErrorReason, OpId, WorkspaceId

__all__ = ["ArchiveStore", "JobUrls", "Limits", "S3Options"]

log = structlog.get_logger()

_NOBODY = archive_key(WorkspaceId(UUID(int=0)), OpId(UUID(int=0)))
_PREFIX_PART = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class JobUrls:
    """What a storage job's request says about the store (storage_job/protocol.py)."""

    archive_url: str
    meta_url: str
    store: Mapping[str, object] = field(repr=False)  # credentials are in it


class ArchiveStore:
    """Implements drivers.base.Archives."""

    def __init__(self, objects: Objects, prefix: str = "archives/") -> None:
        self._objects = objects
        self._prefix = checked_prefix(prefix)
        self._read_back = ReadBack(objects)

    @classmethod
    def open(
        cls, url: str, *, prefix: str = "archives/", s3: S3Options | None = None, limits: Limits | None = None
    ) -> "ArchiveStore":
        """The store at `file:///folder` or `s3://bucket`; nothing is contacted yet."""
        parts = urlsplit(url)
        limits = limits or Limits()
        match parts.scheme:
            case "file" if parts.netloc in ("", "localhost") and parts.path.startswith("/") and parts.path != "/":
                return cls(FolderObjects(Path(unquote(parts.path)), limits), prefix)
            case "s3" if parts.netloc and parts.path in ("", "/"):
                return cls(BucketObjects(parts.netloc, s3 or S3Options(), limits), prefix)
        raise SettingsError(f"ARCHIVE_URL={url}: must be file:///folder or s3://bucket.")

    async def prepare(self) -> None:
        """Once at start: makes the folder, or asks whether the bucket is there. Raises Unreachable."""
        await self._objects.prepare()

    async def ping(self) -> None:
        """Return if the store answers; raises what keeps it from answering. Changes nothing."""
        with suppress(Absent, Corrupted, Expired):
            await self._find(_NOBODY)

    def job_urls(self, key: ArchiveKey) -> JobUrls:
        """Where a storage job is to put the archive and its meta, or to get them from.

        Touches the disk where the store is a folder; raises Unreachable if that is not there.
        """
        path = self._path(key)
        return JobUrls(self._objects.url(path), self._objects.url(path + META_SUFFIX), self._objects.job_options)

    async def look(self, key: ArchiveKey) -> ArchiveSeen:
        try:
            await self._find(key)
        except DriverError as error:
            return _seen_from(error, key)
        return ArchiveSeen.LISTED

    async def verify(self, key: ArchiveKey, moved: Callable[[int], None] = lambda _: None) -> ArchiveSeen:
        try:
            meta, stamp = await self._found_as(key)
            found = await self._read_back.sha256_of(self._path(key), stamp, meta.sha256, moved)
            if found != meta.sha256:
                raise Corrupted(f"Its {stamp.size} bytes have the checksum {found}, not {meta.sha256}.")
            await self._objects.settle([self._path(key), self._path(meta_key(key))])
        except DriverError as error:
            return _seen_from(error, key)
        return ArchiveSeen.VERIFIED

    async def found(self, whose: WorkspaceId | None = None) -> AsyncIterator[Sequence[FoundArchive]]:
        """A meta without its object, and an upload that was never finished, are found too, as incomplete."""
        half: dict[str, tuple[datetime, int]] = {}  # seen is only the object or only the meta
        unfinished: dict[str, datetime] = {}
        async for page in self._objects.pages(self._prefix if whose is None else f"{self._prefix}{whose}/"):
            whole: list[FoundArchive] = []
            for entry in page:
                name = entry.path.removeprefix(self._prefix)
                if name == owner.NAME:
                    continue
                key = name.removesuffix(META_SUFFIX)
                if entry.unfinished:
                    unfinished[key] = entry.modified_at
                    continue
                other = half.pop(key, None)
                if other is None:
                    half[key] = (entry.modified_at, entry.size)
                else:
                    newest, size = max(entry.modified_at, other[0]), entry.size + other[1]
                    whole.append(FoundArchive(key, newest, complete=True, size=size))
                    unfinished.pop(key, None)
            if whole:
                yield whole
        rest = unfinished | {key: at for key, (at, _) in half.items()}
        if rest:
            yield [FoundArchive(key, at, complete=False) for key, at in rest.items()]

    async def describe(self, key: ArchiveKey) -> ArchiveFile:
        meta, stamp = await self._found_as(key)
        return ArchiveFile(stamp.size, meta.sha256, stamp.mark)

    async def part(self, key: ArchiveKey, file: ArchiveFile, start: int, size: int) -> bytes:
        return await self._objects.part(self._path(key), start, size, Stamp(file.size, file.mark))

    async def make_empty(self, key: ArchiveKey) -> None:
        """A complete archive that is there already is left alone, whatever it holds."""
        if await self._is_complete(key):
            return
        meta = Meta(hashlib.sha256(EMPTY_ARCHIVE).hexdigest(), len(EMPTY_ARCHIVE))
        await self._objects.put(self._path(key), EMPTY_ARCHIVE)
        await self._objects.put(self._path(meta_key(key)), meta.encode())

    async def copy(self, source: ArchiveKey, key: ArchiveKey) -> None:
        """The checksum is the source's, so whatever went wrong with the bytes shows when the copy is verified."""
        try:
            meta = await self._find(source)
        except (Absent, Corrupted, Expired) as error:
            reason = ErrorReason.ARCHIVE_CORRUPTED
            raise TerminalError(reason, f"The archive {source} cannot be copied: {error}") from error
        if await self._is_complete(key):
            return
        await self._objects.copy(self._path(source), self._path(key), meta.size)
        await self._objects.put(self._path(meta_key(key)), meta.encode())

    async def marker(self) -> StoreMarker | None:
        """Whose store this is; None if nobody has said so yet."""
        try:
            return owner.parse(await self._objects.read(self._prefix + owner.NAME, owner.MOST_BYTES))
        except Absent:
            return None

    async def leave_marker(self, marker: StoreMarker) -> None:
        await self._objects.put(self._prefix + owner.NAME, owner.encode(marker), is_only_writer=True)

    async def delete(self, key: ArchiveKey) -> None:
        """Unfinished uploads of it are ended too."""
        await self._objects.delete(self._path(meta_key(key)))
        await self._objects.delete(self._path(key))

    async def _find(self, key: ArchiveKey) -> Meta:
        """The meta of a complete archive; raises what is wrong with it."""
        meta, _ = await self._found_as(key)
        return meta

    async def _found_as(self, key: ArchiveKey) -> tuple[Meta, Stamp]:
        text = await self._objects.read(self._path(meta_key(key)), MOST_BYTES)
        stamp = await self._objects.stamp(self._path(key))
        meta = parse(text, stamp.size)
        if meta is None:
            raise Corrupted(f"Its meta is damaged: {text[:80]!r}.")
        if meta.size != stamp.size:
            raise Corrupted(f"It has {stamp.size} bytes, its meta says {meta.size}.")
        return meta, stamp

    async def _is_complete(self, key: ArchiveKey) -> bool:
        """Whether there is nothing to do. A meta that does not fit goes, lest it vouch for what is put there next."""
        try:
            await self._find(key)
        except Absent:
            return False
        except Corrupted:
            await self._objects.delete(self._path(meta_key(key)))
            return False
        return True

    def _path(self, key: str) -> str:
        parse_archive_key(key.removesuffix(META_SUFFIX))
        return self._prefix + key


class Corrupted(TerminalError):
    """The store answered, and object and meta do not agree."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorReason.ARCHIVE_CORRUPTED, message)


def checked_prefix(prefix: str) -> str:
    """A prefix that means the same to every store: `` or `some/folders/`."""
    parts = prefix.removesuffix("/").split("/")
    if prefix and not all(_PREFIX_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise SettingsError(f"ARCHIVE_PREFIX={prefix}: must be folder names of letters, digits and ._- separated by /.")
    return "/".join(parts) + "/" if prefix else ""


def _seen_from(error: DriverError, key: ArchiveKey) -> ArchiveSeen:
    """What the observer is told; the cause itself is only in the log."""
    match error:
        case Absent():
            return ArchiveSeen.MISSING
        case Corrupted():
            seen = ArchiveSeen.CORRUPTED
        case Expired():
            seen = ArchiveSeen.EXPIRED
        case TimedOut():
            seen = ArchiveSeen.TIMEOUT
        case Unreachable():
            seen = ArchiveSeen.UNREACHABLE
        case _:
            raise error
    log.warning("looking at an archive", archive=key, seen=seen.name, cause=str(error))
    return seen
