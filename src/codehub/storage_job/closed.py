"""What its owner closed to himself: the job is that owner, so it may open it all the same, and leaves it as it was.

The permission that is missing is lent on the inode itself, found through a descriptor and never again by its name, and
taken back when it is no longer needed. Nothing of others is changed. Root may open everything and lends nothing.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOOK = 0o500  # list a folder and reach what is in it
CHANGE = 0o700
READ = 0o400
WRITE = 0o200


def itself(fd: int) -> Path:
    """What is open, without its name: the one way that changes modes through a descriptor which cannot read."""
    return Path(f"/proc/self/fd/{fd}")


@dataclass(frozen=True, slots=True)
class Loan:
    """A permission that somebody's own thing has for a while."""

    fd: int
    mode: int  # what it had, and gets back

    def end(self) -> None:
        itself(self.fd).chmod(self.mode)


def lend(fd: int, bits: int) -> Loan | None:
    """Give the owner these bits; None if that is not needed, or not ours to give."""
    status = os.fstat(fd)
    mode = stat.S_IMODE(status.st_mode)
    is_known = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if mode & bits == bits or status.st_uid != os.geteuid() or not is_known:
        return None
    if mode & stat.S_ISGID and status.st_gid not in (os.getegid(), *os.getgroups()):
        return None  # the kernel would take this bit away, and not let us put it back
    if os.access(itself(fd), bits >> 6, effective_ids=True):
        return None
    try:
        itself(fd).chmod(mode | bits)
    except OSError:  # a file system that is read only, a file that may not be changed
        return None
    return Loan(fd, mode)


@contextmanager
def lent(fd: int, bits: int) -> Iterator[None]:
    """For the length of a block."""
    loan = lend(fd, bits)
    try:
        yield
    finally:
        if loan:
            loan.end()


def open_closed(name: str, flags: int, dir_fd: int | None = None) -> int:
    """Open for reading what was just refused, its mode as before when this returns; PermissionError if that fails."""
    found = os.open(name, os.O_PATH | os.O_CLOEXEC | flags & os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        with lent(found, READ):
            # The same inode, whatever has its name by now; a link, the only thing in the way, is none of ours.
            return os.open(itself(found), flags & ~os.O_NOFOLLOW)
    finally:
        os.close(found)
