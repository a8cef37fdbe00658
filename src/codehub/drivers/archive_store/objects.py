"""What a place that holds objects must be able to do, and how it fails.

Paths are relative to the place, with the prefix. "Is not there" (Absent) is said only when the place itself answered;
everything that prevents an answer is Unreachable, and TimedOut when it was time that ran out. Refused credentials and
a missing bucket or folder are Unreachable too: they say nothing about any one object.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from codehub.errors import ActionFailed, TerminalError, Unreachable
from codehub.model.workspace import ErrorReason


class Absent(ActionFailed):
    """The place answered: there is no such object."""


class TimedOut(Unreachable):
    """The place did not answer in time, or stopped sending."""


class Changed(Unreachable):
    """Another object has this name by now: look again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was replaced while it was read.")


class Expired(TerminalError):
    """The object is there and is not served any more (an archived storage tier)."""

    def __init__(self, path: str) -> None:
        super().__init__(
            ErrorReason.ARCHIVE_CORRUPTED,
            f"The store no longer serves {path}: it was moved to an archived storage tier.",
            "Restore the object in the store, and keep lifecycle rules off this prefix.",
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds, and from which size on a copy is made in parts."""

    connect: float = 3.0
    request: float = 5.0  # one small request and its answer
    progress: float = 30.0  # while much is read or copied: the longest time without getting further
    part_bytes: int = 512 << 20
    one_copy_bytes: int = 5 << 30  # what S3 copies in one request at most


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells an object from every other that ever has its name."""

    size: int
    mark: str  # changes whenever the object is written; "" where the place has nothing of that kind

    @property
    def is_telling(self) -> bool:
        return bool(self.mark)


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing; unfinished means that it only began to be uploaded."""

    path: str
    modified_at: datetime
    unfinished: bool = False
    size: int = 0


class Objects(Protocol):
    """A folder or a bucket."""

    async def prepare(self) -> None:
        """Make it ready for use, once, at start; raises Unreachable when that is not possible."""
        ...

    async def stamp(self, path: str) -> Stamp:
        """Of an object that could be read now."""
        ...

    async def read(self, path: str, most: int) -> bytes:
        """A small object; only its first bytes if it holds more than `most`."""
        ...

    async def part(self, path: str, start: int, size: int, stamp: Stamp) -> bytes:
        """These bytes of the object with this stamp; Changed if another one has its name."""
        ...

    async def put(self, path: str, data: bytes, *, is_only_writer: bool = False) -> None:
        """All or nothing, and there after a power cut once it returned.

        Where nobody else writes it, what was left by whoever was killed while writing it goes, too.
        """
        ...

    async def copy(self, source: str, target: str, size: int) -> None:
        """Inside the place; all or nothing, durable, nothing left behind by a failure that can be cleaned up."""
        ...

    async def delete(self, path: str) -> None:
        """The object and every unfinished upload of it; nothing to do if there is none."""
        ...

    async def settle(self, paths: Sequence[str]) -> None:
        """Return when these objects would be there after a power cut, whoever wrote them."""
        ...

    def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        """Everything under the prefix, in any order, or Unreachable."""
        ...

    def url(self, path: str) -> str:
        """For a storage job, together with `job_options`."""
        ...

    @property
    def job_options(self) -> Mapping[str, object]:
        """How a storage job reaches it: plain values under obstore's names, secrets among them; {} for a folder."""
        ...
