"""An archive store that is a folder: an object appears by a rename, after its content is on the disk.

Written by hand because obstore's folder store does not sync, and the volume is deleted once a job has said "done".
Unfinished files are called `name#digits` beside the object, which obstore's listings leave out.
"""

import ctypes
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .protocol import BadRequest, StoreUnreachable, TryAgain

CHUNK = 1 << 20
WRITE_BACK = 32 << 20  # bytes after which the kernel is told to begin writing, so that the sync at the end is short
SYNC_FILE_RANGE_WRITE = 2
# What large archives leave free, looked at as often: homes, and the database, may be on the same disk, and an archive
# frees its home only once it is complete.
LEFT_FREE_SHARE, MOST_LEFT_FREE = 40, 256 << 20
# What is about this archive, or passes by itself: it vanished under us, or its file system takes no file of that size.
_OURS = (errno.ENOENT, errno.ENOTDIR, errno.EFBIG)
_WHY = {errno.ENOSPC: "is full", errno.EDQUOT: "is full", errno.EROFS: "is read-only"}


class FolderObject:
    """One file of the store."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_url(cls, url: str) -> "FolderObject":
        path = Path(unquote(urlsplit(url).path))
        if not path.is_absolute() or ".." in path.parts:
            raise BadRequest("a file:// URL must name an absolute path")
        return cls(path)

    def size(self) -> int | None:
        with _errors():
            return self._size()

    def content(self, most: int) -> bytes | None:
        with _errors():
            return self._content(most)

    def chunks(self) -> Iterator[bytes]:
        with _errors():
            yield from self._chunks()

    def write(self, chunks: Iterable[bytes | memoryview], moved: Callable[[int], None]) -> None:
        """`chunks` must raise no OSError of its own: it would be taken for the store's."""
        with _errors():
            self._write(chunks, moved)

    def _size(self) -> int | None:
        try:
            found = self._path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def _content(self, most: int) -> bytes | None:
        try:
            with self._path.open("rb") as file:
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _chunks(self) -> Iterator[bytes]:
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while chunk := os.read(fd, CHUNK):
                yield chunk
        finally:
            os.close(fd)

    def _write(self, chunks: Iterable[bytes | memoryview], moved: Callable[[int], None]) -> None:
        owner = self._make_folder()
        self._remove_unfinished()
        unfinished = self._path.with_name(f"{self._path.name}#{secrets.randbelow(10**12)}")
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.geteuid() == 0:
                os.fchown(fd, *owner)
            write_all(fd, chunks, moved)
            os.fsync(fd)
            unfinished.rename(self._path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        sync_folder(self._path.parent)

    def _make_folder(self) -> tuple[int, int]:
        """Make the folders that are missing; whoever owns the nearest one that was there owns what is new."""
        missing = [self._path.parent]
        while not missing[-1].is_dir():
            if missing[-1] == missing[-1].parent:
                raise StoreUnreachable("the archive folder is not there")
            missing.append(missing[-1].parent)
        there = missing.pop().stat()
        for folder in reversed(missing):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                if os.geteuid() == 0:
                    os.chown(folder, there.st_uid, there.st_gid)
            sync_folder(folder.parent)
        return there.st_uid, there.st_gid

    def _remove_unfinished(self) -> None:
        """What a killed job of the same operation left; should one still run, its rename fails and so does it."""
        ours = re.compile(re.escape(self._path.name) + r"#\d+")
        for found in self._path.parent.iterdir():
            if ours.fullmatch(found.name):
                found.unlink(missing_ok=True)


@contextmanager
def _errors() -> Iterator[None]:
    """What the system says of the store becomes an error of the job: almost all of it is an outage of the store."""
    try:
        yield
    except OSError as error:
        if error.errno in _OURS:
            raise TryAgain(f"the archive folder: {error}") from error
        why = _WHY.get(error.errno or 0, "cannot be used")
        raise StoreUnreachable(f"the archive folder {why}: {error}") from error


def write_all(fd: int, chunks: Iterable[bytes | memoryview], moved: Callable[[int], None]) -> None:
    written = begun = 0
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(fd, rest) :]
        written += len(chunk)
        moved(len(chunk))
        if written - begun >= WRITE_BACK:
            begin_writing(fd, begun, written - begun)
            check_room(fd)
            begun = written


def check_room(fd: int) -> None:
    disk = os.fstatvfs(fd)
    if disk.f_bavail * disk.f_frsize < min(disk.f_blocks * disk.f_frsize // LEFT_FREE_SHARE, MOST_LEFT_FREE):
        raise OSError(errno.ENOSPC, "the rest of its disk is kept free")


def begin_writing(fd: int, offset: int, size: int) -> None:
    """A hint, and only where the C library has it. Advice to drop the pages would do the same, and then drop them."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call:
        call(fd, ctypes.c_int64(offset), ctypes.c_int64(size), ctypes.c_uint(SYNC_FILE_RANGE_WRITE))


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
