"""A size for each home, kept by the file system: project quotas of ext4 and XFS, numbered like the home's own user.

What is made in a home belongs to its project, so neither a size nor a number of files is exceeded, by whomever. In a
sandbox no workspace can change which project a file belongs to: the kernel lets only its first user namespace do that.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FSGETXATTR, FSSETXATTR, PROJECT_IS_INHERITED = 0x801C581F, 0x401C5820, 0x200
_ATTRIBUTES = struct.Struct("=IIII12x")  # flags, extent size, extents, project
QUOTACTL_FD = 443  # since Linux 5.14, on every processor
Q_GETQUOTA, Q_SETQUOTA, PROJECTS = 0x800007, 0x800008, 2
_LIMITS = struct.Struct("=QQQQQQQQII")  # KiB hard and soft, bytes used, files hard, soft and used, times, what is valid
_VALID_LIMITS = 1 | 4
_BYTES_PER_FILE, _LEAST_FILES = 16 << 10, 100_000  # as ext4 itself makes room for files

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Quotas:
    """On one file system."""

    home_bytes: int

    def adopt(self, home: Path, project: int) -> None:
        """Before anything is in it: what is there already stays uncounted. OSError where that is not to be had."""
        self.limit(home, project)
        with _opened(home) as folder:
            flags, size, extents, _ = _attributes(folder)
            found = _ATTRIBUTES.pack(flags | PROJECT_IS_INHERITED, size, extents, project)
            fcntl.ioctl(folder, FSSETXATTR, found)

    def limit(self, home: Path, project: int) -> None:
        """Also of a home that has it: the setting may be another one than when it was made."""
        files = max(self.home_bytes // _BYTES_PER_FILE, _LEAST_FILES)
        with _opened(home) as folder:
            _quota(folder, Q_SETQUOTA, project, (self.home_bytes >> 10, 0, 0, files, 0, 0, 0, 0, _VALID_LIMITS, 0))

    def try_out(self, folder: Path, project: int) -> str | None:
        """Why there can be none there; None if there can. `folder` is empty, and `project` nobody's yet."""
        try:
            self.adopt(folder, project)
        except OSError as error:
            told = {errno.ESRCH: "it is not mounted with prjquota", errno.ENOTTY: "it has none"}
            return told.get(error.errno or 0, error.strerror or str(error))
        return None


def has_project(home: Path, project: int) -> bool:
    try:
        with _opened(home) as folder:
            flags, _, _, found = _attributes(folder)
    except OSError:
        return False
    return found == project and bool(flags & PROJECT_IS_INHERITED)


def used_by(folder: Path, project: int) -> tuple[int, int]:
    """Bytes and files."""
    with _opened(folder) as opened:
        found = _quota(opened, Q_GETQUOTA, project, (0,) * 10)
    return found[2], found[5]


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _attributes(folder: int) -> tuple[int, int, int, int]:
    flags, size, extents, project = _ATTRIBUTES.unpack(fcntl.ioctl(folder, FSGETXATTR, bytes(_ATTRIBUTES.size)))
    return flags, size, extents, project


def _quota(folder: int, command: int, project: int, given: tuple[int, ...]) -> tuple[int, ...]:
    block = ctypes.create_string_buffer(_LIMITS.pack(*given), _LIMITS.size)
    words = ctypes.c_uint(command << 8 | PROJECTS), ctypes.c_uint(project)
    if _libc.syscall(QUOTACTL_FD, folder, *words, block) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _LIMITS.unpack(block.raw)
