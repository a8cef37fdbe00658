"""Where archives are: the two objects of a request, in a folder or in S3, behind one small interface."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from .folder import FolderObject
from .protocol import BadRequest, Corrupted, Request
from .s3 import open_s3

META_BYTES = 1024  # a meta is about 90 bytes long
# The first generation wrote one line: the checksum alone tells a whole archive.
_META = re.compile(rb"sha256:([0-9a-f]{64})(?:\nsize:([0-9]{1,18}))?\n?")


class Stored(Protocol):
    """One object: there as a whole, or not there."""

    def size(self) -> int | None:
        """How long it is; None if it is not there."""
        ...

    def content(self, most: int) -> bytes | None:
        """All of a small object; None if it is not there. Longer ones come cut to `most` bytes."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Its content from the start."""
        ...

    def write(self, chunks: Iterable[bytes | memoryview], moved: Callable[[int], None]) -> None:
        """Replace it, telling `moved` of every few bytes that the store has got.

        Durable when this returns; if `chunks` raises, or anything fails, what was there stays.
        """
        ...


def open_pair(request: Request) -> tuple[Stored, Stored]:
    """The archive and its meta."""
    archive, meta = request.archive_url, request.meta_url
    if archive.startswith("file:///") and meta.startswith("file:///"):
        return FolderObject.of_url(archive), FolderObject.of_url(meta)
    if archive.startswith("s3://") and meta.startswith("s3://"):
        return open_s3(archive, request), open_s3(meta, request)
    raise BadRequest("archive_url and meta_url must both be file:///… or s3://…")


@dataclass(frozen=True, slots=True)
class Meta:
    """What must be true of an archive; its presence is what makes an archive count."""

    sha256: str
    size: int

    def text(self) -> bytes:
        return f"sha256:{self.sha256}\nsize:{self.size}\n".encode()


def parse_meta(text: bytes, size: int | None) -> Meta:
    """What a meta says of an archive that is `size` bytes long; Corrupted if they do not belong together."""
    found = _META.fullmatch(text)
    if not found:
        raise Corrupted("the archive's meta is damaged")
    if size is None:
        raise Corrupted("the archive is not there, only its meta")
    if found[2] and int(found[2]) != size:
        raise Corrupted(f"the archive should have {int(found[2])} bytes and has {size}")
    return Meta(found[1].decode(), size)
