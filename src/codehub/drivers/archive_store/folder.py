"""Objects in a folder: on a disk of this machine, or on a network file system.

What was written is on the disk when a call returns (file and folders are synced), and appears whole or not at all. No
symbolic link is followed below the folder. A marker file in it tells a folder that is empty from one whose disk is not
mounted: without the marker nothing is said to be absent. Files called NAME#DIGITS are unfinished uploads of NAME, as
object stores on a folder name them.

Calls run in threads of their own and are given up after their time limit; one that hangs in the kernel keeps its
thread, and what it has open.
"""

import asyncio
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeVar

from codehub.drivers.archive_store.objects import Absent, Changed, Entry, Limits, Stamp, TimedOut
from codehub.errors import ActionFailed, DriverError, Unreachable

MARKER = ".codehub-archives"
COPY_BLOCK = 64 << 20
PAGE = 1000
FICLONE = 0x40049409

_NO_ROOM = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EROFS: "read-only"}
_UNFINISHED = re.compile(r"(.+)#[0-9]+")
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

T = TypeVar("T")


class FolderObjects:
    """One folder."""

    def __init__(self, root: Path, limits: Limits, sync: Callable[[int], None] = os.fsync) -> None:
        """`sync`: what brings a file or a folder to the disk for certain."""
        self._root = root
        self._limits = limits
        self._sync = sync
        self._threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="archives")

    # -- asynchronous shell ---------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        await self._run(self._prepare)

    async def stamp(self, path: str) -> Stamp:
        return await self._run(lambda: self._stamp(path))

    async def read(self, path: str, most: int) -> bytes:
        return await self._run(lambda: self._read(path, most))

    async def part(self, path: str, start: int, size: int, stamp: Stamp) -> bytes:
        return await self._run(lambda: self._part(path, start, size, stamp), self._limits.progress)

    async def put(self, path: str, data: bytes, *, is_only_writer: bool = False) -> None:
        await self._run(lambda: self._put(path, data), self._limits.progress)
        if is_only_writer:
            await self._run(lambda: self._drop_drafts(path))

    async def copy(self, source: str, target: str, size: int) -> None:
        steps = self._copy(source, target, size)
        try:
            while await self._run(lambda: next(steps, None), self._limits.progress) is not None:
                pass
        finally:
            with suppress(ValueError):  # a step that hangs still holds it
                steps.close()

    async def delete(self, path: str) -> None:
        await self._run(lambda: self._delete(path))

    async def settle(self, paths: Sequence[str]) -> None:
        for path in paths:
            await self._run(partial(self._settle, path), self._limits.progress)

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        entries = self._entries(prefix)
        while page := await self._run(lambda: list(islice(entries, PAGE)), self._limits.progress):
            yield page

    def url(self, path: str) -> str:
        """For a job, which cannot tell a missing archive from a disk that is not mounted, and would write below it."""
        if not self._is_there():
            raise Unreachable(f"The archive folder {self._root} is not there.", "Is its disk mounted?")
        return (self._root / path).as_uri()

    @property
    def job_options(self) -> Mapping[str, object]:
        return {}

    async def _run(self, work: Callable[[], T], limit: float | None = None) -> T:
        """In a thread, within its limit; what the system says becomes an error of ours."""
        seconds = limit or self._limits.request
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._mapped(work))
        except TimeoutError:
            raise TimedOut(f"The archive folder {self._root} did not answer within {seconds:g} s.") from None

    def _mapped(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> DriverError:
        said = f"{error.strerror or error} ({error.filename})" if error.filename else str(error.strerror or error)
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            if not self._is_there():
                return Unreachable(f"The archive folder {self._root} is not there.", "Is its disk mounted?")
            return Absent(f"Not in the archive folder: {said}.")
        if error.errno == errno.EFBIG:  # this archive alone: its file system takes no file of that size
            return ActionFailed(f"The archive folder {self._root} takes no file of this size: {said}.")
        if how := _NO_ROOM.get(error.errno or 0):
            hint = "Make room on its disk, or raise its quota." if how == "full" else "Let it be written again."
            return Unreachable(f"The archive folder {self._root} is {how}: {said}.", hint)
        return Unreachable(f"The archive folder {self._root} cannot be used: {said}.")

    # -- what the threads do ----------------------------------------------------------------------------------------

    def _is_there(self) -> bool:
        return (self._root / MARKER).is_file()

    def _prepare(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._is_there():
            return
        (self._root / MARKER).write_text("CodeHub keeps archives of workspaces here.\n")
        for folder in (self._root, self._root.parent):
            with _opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as handle:
                self._sync(handle)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder of an object, opened without following any link, and the object's name in it."""
        *folders, name = PurePosixPath(path).parts
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if make and not self._is_there():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._root / MARKER))
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, 0o700, dir_fd=handle)
                        self._sync(handle)
                inner = os.open(folder, _FOLDER_FLAGS, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle, name
        finally:
            os.close(handle)

    def _open(self, path: str) -> int:
        with self._parent(path) as (folder, name):
            file = os.open(name, _FILE_FLAGS, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise FileNotFoundError(errno.ENOENT, "not a regular file", path)
        return file

    def _stamp(self, path: str) -> Stamp:
        with _opened(self._open(path)) as file:
            return _stamp_of(os.fstat(file))

    def _part(self, path: str, start: int, size: int, stamp: Stamp) -> bytes:
        with _opened(self._open(path)) as file:
            data = os.pread(file, size, start)
            if _stamp_of(os.fstat(file)) != stamp or len(data) != size:
                raise Changed(path)
            return data

    def _read(self, path: str, most: int) -> bytes:
        with _opened(self._open(path)) as file:
            return os.read(file, most + 1)

    def _put(self, path: str, data: bytes) -> None:
        with self._new(path) as file:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]

    def _copy(self, source: str, target: str, size: int) -> Generator[bool, None, None]:
        """Yields after every step; the target appears with the last one."""
        with _opened(self._open(source)) as old, self._new(target) as new:
            try:
                fcntl.ioctl(new, FICLONE, old)
            except OSError:  # not the same disk, or not a file system that shares blocks
                while _copy_some(old, new):
                    os.fdatasync(new)
                    yield True
            if os.fstat(new).st_size != size:
                raise ActionFailed(f"The archive {source} changed while it was copied.")

    @contextmanager
    def _new(self, path: str) -> Iterator[int]:
        """A file that becomes `path` when all went well, and leaves nothing otherwise."""
        with self._parent(path, make=True) as (folder, name):
            draft = f"{name}#{secrets.randbelow(10**18)}"
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
            try:
                yield file
                self._sync(file)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
            finally:
                os.close(file)
            self._sync(folder)

    def _drop_drafts(self, path: str, *more: str) -> None:
        """What whoever was killed while writing it has left beside it; and `more` of that folder."""
        with self._parent(path) as (folder, name):
            for found in os.listdir(folder):  # noqa: PTH208 - of an open folder
                if found in more or _finished_name(found) == name:
                    with suppress(FileNotFoundError):
                        os.unlink(found, dir_fd=folder)
            self._sync(folder)

    def _delete(self, path: str) -> None:
        try:
            self._drop_drafts(path, path.rpartition("/")[2])
        except (FileNotFoundError, NotADirectoryError):
            if not self._is_there():
                raise
            return
        parent = self._root / path
        with suppress(OSError):  # it is not empty, or somebody else removed it
            (parent := parent.parent).rmdir()
            (parent := parent.parent).rmdir()

    def _settle(self, path: str) -> None:
        with _opened(self._open(path)) as file:
            self._sync(file)
        folder = (self._root / path).parent
        while True:
            with _opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as handle:
                self._sync(handle)
            if folder == self._root:
                return
            folder = folder.parent

    def _entries(self, prefix: str) -> Iterator[Entry]:
        waiting = [prefix]
        while waiting:
            above = waiting.pop()
            try:
                found = list(os.scandir(self._root / above))
            except FileNotFoundError:
                found = []  # removed meanwhile, or nothing was archived yet
            names = {entry.name for entry in found}
            for entry in found:
                if _finished_name(entry.name) in names:
                    continue  # left over beside what came after it; deleting that takes both
                with suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{above}{entry.name}/")
                    elif entry.is_file(follow_symlinks=False):
                        finished = _finished_name(entry.name)
                        seen = entry.stat(follow_symlinks=False)
                        at = datetime.fromtimestamp(seen.st_mtime, UTC)
                        path = f"{above}{finished or entry.name}"
                        yield Entry(path, at, unfinished=finished is not None, size=seen.st_size)
        if not self._is_there():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._root / MARKER))


def _stamp_of(found: os.stat_result) -> Stamp:
    """The time of the last change is the kernel's own: nobody who writes can set it."""
    mark = f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}"
    return Stamp(found.st_size, mark)


def _finished_name(name: str) -> str | None:
    """The name that an unfinished upload was to get, or None for anything else."""
    match = _UNFINISHED.fullmatch(name)
    return match[1] if match else None


def _copy_some(old: int, new: int) -> int:
    try:
        return os.copy_file_range(old, new, COPY_BLOCK)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            raise
    return os.sendfile(new, old, None, COPY_BLOCK)


@contextmanager
def _opened(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        os.close(file)
