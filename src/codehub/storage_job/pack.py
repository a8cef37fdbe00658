"""A home as a tar stream, made in one pass with one buffer.

Kept: files (holes too), folders, symbolic links verbatim, hard links, FIFOs; owner numbers, modes, times to the
nanosecond, extended attributes (user.*, capabilities, ACLs). Left out and counted: sockets, devices, and what is
mounted inside the home, of which the empty folder stays.

Something that changes, grows, shrinks or vanishes while it is read fails the job: padding or cutting it would be
silent corruption, and no instance runs while a job does.
"""

import os
import stat
from collections.abc import Callable, Mapping
from types import MappingProxyType

from .closed import LOOK, READ
from .holes import extents
from .home import OURS, Folder, opened, shown, unreadable, walk, xattrs_of
from .mounts import has_mounts, mount_id
from .protocol import Tally, TryAgain, Unarchivable
from .tarformat import (
    END,
    EXTENSION_BYTES,
    FIFO,
    FILE,
    FOLDER,
    HARD_LINK,
    SYMLINK,
    Entry,
    describe,
    padding,
    sparse_map,
)

BUFFER = 1 << 20
NO_XATTRS: Mapping[bytes, bytes] = MappingProxyType({})
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOATIME


class Packer:
    """Writes the home below `root_fd` to `write`, which must be done with the bytes when it returns."""

    def __init__(self, root_fd: int, write: Callable[[memoryview], object], tally: Tally) -> None:
        self.left_out = 0
        self._root = root_fd
        self._write = write
        self._tally = tally
        self._buffer = memoryview(bytearray(BUFFER))
        self._used = 0
        self._linked: dict[tuple[int, int], bytes] = {}
        self._device = os.fstat(root_fd).st_dev
        self._mount = mount_id(root_fd)
        self._has_mounts = has_mounts(root_fd)

    def pack(self) -> None:
        for folder in walk(self._root):
            self._folder(folder)
        self._put(END)
        self._flush()

    def _folder(self, folder: Folder) -> None:
        xattrs = xattrs_of(folder.fd)
        if not folder.path:
            xattrs = {key: value for key, value in xattrs.items() if not key.startswith(OURS)}
        self._describe(_entry(folder.path or b"./", FOLDER, folder.status, xattrs=xattrs))
        if self._is_mounted(folder.fd, folder.status):
            self.left_out += 1
            return
        folder.unlock(LOOK)
        with os.scandir(folder.fd) as found:
            for item in found:
                if item.is_file(follow_symlinks=False):
                    self._file(folder, item.name)
                elif item.is_dir(follow_symlinks=False):
                    folder.below.append(item.name)
                else:
                    self._other(folder, item.name)
        self._must_be_unchanged(folder.fd, folder.status, folder.path)

    def _must_be_unchanged(self, fd: int, before: os.stat_result, path: bytes) -> None:
        after = os.fstat(fd)
        if (after.st_ctime_ns, after.st_mtime_ns, after.st_size) != (
            before.st_ctime_ns,
            before.st_mtime_ns,
            before.st_size,
        ):
            raise TryAgain(f"changed while it was read: {shown(path)}")

    def _is_mounted(self, fd: int, status: os.stat_result) -> bool:
        return (self._has_mounts or status.st_dev != self._device) and mount_id(fd) != self._mount

    def _other(self, folder: Folder, name: str) -> None:
        path = folder.path + os.fsencode(name)
        try:
            status = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=folder.fd))
                self._describe(_entry(path, SYMLINK, status, link=target))
            elif stat.S_ISFIFO(status.st_mode):
                self._describe(_entry(path, FIFO, status))
            else:
                self.left_out += 1
        except PermissionError as error:
            raise unreadable(path) from error
        except OSError as error:
            raise TryAgain(f"changed while it was read: {shown(path)} ({error.strerror})") from error

    def _file(self, folder: Folder, name: str) -> None:
        path = folder.path + os.fsencode(name)
        fd = opened(name, folder.fd, _FILE_FLAGS, path)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise TryAgain(f"changed while it was read: {shown(path)}")
            if self._is_mounted(fd, status):
                self.left_out += 1
                return
            if status.st_nlink > 1:
                first = self._linked.setdefault((status.st_dev, status.st_ino), path)
                if first is not path:
                    self._describe(_entry(path, HARD_LINK, status, link=first))
                    return
            xattrs = xattrs_of(fd)
            if not status.st_mode & READ:  # a loan for reading them shows in its times
                status = os.fstat(fd)
            self._content(fd, _entry(path, FILE, status, size=status.st_size, xattrs=xattrs), status)
            self._must_be_unchanged(fd, status, path)
        except OSError as error:
            raise TryAgain(f"could not be read: {shown(path)} ({error.strerror})") from error
        finally:
            os.close(fd)

    def _content(self, fd: int, entry: Entry, status: os.stat_result) -> None:
        size = entry.size
        if status.st_blocks * 512 < size:
            pieces = extents(fd, size)
            if pieces != [(0, size)]:
                return self._sparse(fd, entry, pieces)
        self._describe(entry)
        self._copy(fd, size, entry.name)
        return self._put(bytes(padding(size)))

    def _sparse(self, fd: int, entry: Entry, pieces: list[tuple[int, int]]) -> None:
        table = sparse_map(pieces)
        content = sum(length for _, length in pieces)
        entry.real_size, entry.size = entry.size, len(table) + content
        self._describe(entry)
        self._put(table)
        for offset, length in pieces:
            os.lseek(fd, offset, os.SEEK_SET)
            self._copy(fd, length, entry.name)
        self._put(bytes(padding(content)))

    def _describe(self, entry: Entry) -> None:
        blocks = describe(entry)
        if len(blocks) > EXTENSION_BYTES:
            raise Unarchivable(f"has too many extended attributes: {shown(entry.name)}")
        self._put(blocks)
        self._tally.files_done += 1

    def _copy(self, fd: int, size: int, path: bytes) -> None:
        """Exactly `size` bytes; fewer mean that it shrank. That it grew shows in its status afterwards."""
        left = size
        while left:
            if self._used == BUFFER:
                self._flush()
            got = os.readv(fd, [self._buffer[self._used : self._used + left]])
            if not got:
                raise TryAgain(f"shrank while it was read: {shown(path)}")
            self._used += got
            left -= got
            self._tally.bytes_done += got  # a file may be larger than all others together

    def _put(self, data: bytes) -> None:
        end = self._used + len(data)
        if end <= BUFFER:
            self._buffer[self._used : end] = data
            self._used = end
        else:
            self._flush()
            for start in range(0, len(data), BUFFER):
                piece = data[start : start + BUFFER]
                self._flush()
                self._buffer[: len(piece)] = piece
                self._used = len(piece)

    def _flush(self) -> None:
        if self._used:
            self._write(self._buffer[: self._used])
            self._used = 0


def _entry(
    path: bytes,
    kind: bytes,
    status: os.stat_result,
    *,
    size: int = 0,
    link: bytes = b"",
    xattrs: Mapping[bytes, bytes] = NO_XATTRS,
) -> Entry:
    mode = stat.S_IMODE(status.st_mode)
    return Entry(path, kind, mode, status.st_uid, status.st_gid, size, status.st_mtime_ns, link, xattrs)
