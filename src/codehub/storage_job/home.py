"""Walking a home by open folders: no path is ever resolved from its root, no symbolic link followed.

However deep a home is, only a few folders are open at a time: an ancestor that was closed is found again through `..`
and must be the same folder as before.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from .closed import READ, Loan, lend, lent, open_closed
from .protocol import TryAgain, Unarchivable

OPEN_FOLDERS = 64
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KEPT_XATTRS = ("user.", "security.capability", "system.posix_acl_")
OURS = b"user.codehub."  # on the root only: the driver's and the restore job's notes about the volume


@dataclass(slots=True)
class Folder:
    """One folder on the way down. `path` ends with a slash, or is empty for the root."""

    fd: int
    path: bytes
    status: os.stat_result
    name: str = ""
    below: list[str] = field(default_factory=list)  # folders in it that are still to be entered
    needs: int = 0  # what we, its owner, must be allowed while it is open
    loan: Loan | None = None

    def is_open(self) -> bool:
        return self.fd >= 0

    def unlock(self, needs: int) -> None:
        """Until it is closed, use it even if we, its owner, may not. `status` is what it is like then."""
        self.needs = needs
        self.loan = lend(self.fd, needs)
        if self.loan:
            self.status = os.fstat(self.fd)

    def close(self) -> None:
        if self.fd < 0:
            return
        try:
            if self.loan:
                self.loan.end()
        finally:
            os.close(self.fd)
            self.fd, self.loan = -1, None


def walk(root_fd: int, leave: Callable[[Folder, str], None] | None = None) -> Iterator[Folder]:
    """Every folder before what is in it. Whoever iterates fills `below`, by which the walk goes on.

    `root_fd` stays open. Each folder is open when it is yielded, and until the next one is asked for. `leave` is
    called with its parent and its name when all below a folder is done.
    """
    trail = [Folder(os.dup(root_fd), b"", os.fstat(root_fd))]
    try:
        yield trail[-1]
        while trail:
            here = trail[-1]
            if here.below:
                name = here.below.pop()
                trail.append(_enter(here, name))
                if len(trail) > OPEN_FOLDERS:
                    trail[-1 - OPEN_FOLDERS].close()
                yield trail[-1]
            else:
                _leave(trail)
                if leave and trail:
                    leave(trail[-1], here.name)
    finally:
        with ExitStack() as closing:  # all of them, whatever becomes of one
            for folder in trail:
                closing.callback(folder.close)


def _enter(parent: Folder, name: str) -> Folder:
    path = parent.path + os.fsencode(name) + b"/"
    fd = opened(name, parent.fd, FOLDER_FLAGS, path)
    return Folder(fd, path, os.fstat(fd), name)


def _leave(trail: list[Folder]) -> None:
    here = trail.pop()
    try:
        if trail and not trail[-1].is_open():
            parent = trail[-1]
            parent.fd = opened("..", here.fd, FOLDER_FLAGS, parent.path)
            if not os.path.samestat(os.fstat(parent.fd), parent.status):
                raise TryAgain(f"a folder was moved while it was read: {shown(parent.path)}")
            parent.unlock(parent.needs)
    finally:
        here.close()


def opened(name: str, folder: int, flags: int, path: bytes) -> int:
    """Open something of the home; what may be wrong with it is said with its name."""
    try:
        try:
            return os.open(name, flags, dir_fd=folder)
        except PermissionError as error:
            if error.errno == errno.EPERM and flags & os.O_NOATIME:  # only its owner may ask for that
                return opened(name, folder, flags & ~os.O_NOATIME, path)
            return open_closed(name, flags, folder)
    except PermissionError as error:
        raise unreadable(path) from error
    except OSError as error:
        raise TryAgain(f"changed while it was read: {shown(path)} ({error.strerror})") from error


def unreadable(path: bytes) -> Unarchivable:
    return Unarchivable(f"the home's user may not read it (make it readable, or remove it): {shown(path)}")


def xattrs_of(fd: int) -> dict[bytes, bytes]:
    """The extended attributes that are kept. File systems that have none have none to keep."""
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return {}
    return {os.fsencode(name): _xattr_of(fd, name) for name in names if name.startswith(KEPT_XATTRS)}


def _xattr_of(fd: int, name: str) -> bytes:
    try:
        return os.getxattr(fd, name)
    except PermissionError:  # an open file is not enough: who may not read may not read these
        with lent(fd, READ):
            return os.getxattr(fd, name)


def shown(path: bytes) -> str:
    """A path for people: raw bytes made visible, and not too long."""
    text = path.rstrip(b"/").decode(errors="backslashreplace") or "the home's root"
    return text if len(text) <= 200 else f"{text[:100]}…{text[-100:]}"
