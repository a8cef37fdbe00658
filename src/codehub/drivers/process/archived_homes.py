"""Whether a home is still what its archive has: what a person wrote after the job had read it is nowhere else.

When the first job of an operation begins, the file system's own clock is noted beside the home. A home in which
anything changed after that is newer than the archive. Such a home is left untouched, and so is one that somebody else
has open, or that cannot be looked through: the reason is noted beside it, until it is archived again.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from codehub.drivers.process.homes import Home
from codehub.drivers.process.layout import write_durably
from codehub.errors import Unreachable
from codehub.model.workspace import OpId

_OPEN_FOLDERS = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def begin(home: Home, op_id: OpId) -> None:
    """A job of this operation is about to read the home; the caller holds the workspace's lock."""
    try:
        if _noted(home) != str(op_id):
            write_durably(home.archiving, f"{op_id}\n")
        home.kept.unlink(missing_ok=True)
    except OSError as error:  # a full disk, for example
        raise Unreachable(f"{home.archiving} cannot be written: {error.strerror}.") from error


def keep(home: Home, why: str) -> None:
    try:
        write_durably(home.kept, why)
    except OSError as error:
        raise Unreachable(f"{home.kept} cannot be written: {error.strerror}.") from error


def more_since(home: Home, op_id: OpId) -> str | None:
    """Why the home may have more than a job of this operation read; None also if no such job is known of."""
    try:
        if _noted(home) != str(op_id):
            return None
        began = home.archiving.stat().st_mtime_ns
    except OSError as error:
        raise Unreachable(f"{home.archiving} cannot be read: {error.strerror}.") from error
    try:
        with closing(_everything(home.path)) as everything:
            is_changed = any(_changed_at(seen) > began for seen in everything)
    except OSError as error:
        return f"What changed in it after it was archived cannot be told: {error.strerror}."
    return "Something in it changed after it was archived." if is_changed else None


def _noted(home: Home) -> str | None:
    try:
        return home.archiving.read_text().strip()
    except FileNotFoundError:
        return None


def _changed_at(seen: os.stat_result) -> int:
    """By the ctime, which nobody can set.

    But of folders, and of what its owner closed to himself, the job and the driver change mode or owner, which changes
    no content: there by the mtime, unless somebody set it ahead of the clock, where it says nothing.
    """
    is_closed = stat.S_ISREG(seen.st_mode) and not seen.st_mode & stat.S_IRUSR
    if not is_closed and not stat.S_ISDIR(seen.st_mode):
        return seen.st_ctime_ns
    return seen.st_mtime_ns if seen.st_mtime_ns <= seen.st_ctime_ns else 0


@dataclass(slots=True)
class _Folder:
    """One on the way down."""

    descriptor: int
    status: os.stat_result
    below: list[str] = field(default_factory=list)  # still to be entered

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _everything(home: Path) -> Generator[os.stat_result, None, None]:
    """What cannot be read cannot be said to be unchanged: OSError.

    No path but the home's own is resolved, so no name is too long; and few folders are open, however deep it is.
    """
    yield home.lstat()
    trail: list[_Folder] = []
    name = str(home)
    try:
        while True:
            # Closed to its owner, too: what is below it cannot be written without opening it.
            with suppress(PermissionError):
                _enter(trail, name)
                yield from _things_in(trail[-1])
            while trail and not trail[-1].below:
                _leave(trail)
            if not trail:
                return
            name = trail[-1].below.pop()
    finally:
        for folder in trail:
            folder.close()


def _enter(trail: list[_Folder], name: str) -> None:
    descriptor = os.open(name, _FOLDER, dir_fd=trail[-1].descriptor if trail else None)
    trail.append(_Folder(descriptor, os.fstat(descriptor)))
    if len(trail) > _OPEN_FOLDERS:
        trail[-1 - _OPEN_FOLDERS].close()


def _things_in(folder: _Folder) -> Iterator[os.stat_result]:
    with os.scandir(folder.descriptor) as entries:
        for entry in entries:
            try:
                seen = entry.stat(follow_symlinks=False)
            except PermissionError:  # its names can be listed, and nothing in it reached
                continue
            if stat.S_ISDIR(seen.st_mode):
                folder.below.append(entry.name)
            yield seen


def _leave(trail: list[_Folder]) -> None:
    """To the folder above, which may have been closed: it must be the same as before."""
    left = trail.pop()
    try:
        if trail and trail[-1].descriptor < 0:
            above = trail[-1]
            above.descriptor = os.open("..", _FOLDER, dir_fd=left.descriptor)
            if not os.path.samestat(os.fstat(above.descriptor), above.status):
                raise OSError(errno.ESTALE, "a folder was moved meanwhile")
    finally:
        left.close()
