"""A process that makes files: several of them share the kernel's work of creating, most of what a restore takes.

Processes and not threads, because with threads each of them waits for the interpreter lock after every system call,
and on a busy machine for whoever was interrupted while holding it. A maker imports only the standard library, gets its
orders over a socket and content in shared memory, and dies with the process that started it.
"""

import ctypes
import marshal
import mmap
import os
import signal
import sys
from multiprocessing.connection import Connection

from .create import Creator, refusal
from .protocol import Exit, JobFailed
from .sparse import SparseFile
from .tarformat import FILE, SYMLINK, Entry

PR_SET_PDEATHSIG = 1

# The fields of an entry to make, or None for more content of the one before; where its content is in the memory.
Item = tuple[tuple[object, ...] | None, int, int]


def fields_of(entry: Entry) -> tuple[object, ...]:
    """What crosses the socket; `Entry(*fields)` makes it an entry again."""
    return (
        entry.name,
        entry.kind,
        entry.mode,
        entry.uid,
        entry.gid,
        entry.size,
        entry.mtime_ns,
        entry.link,
        entry.xattrs,
        entry.real_size,
    )


class Maker:
    """Makes what it is told to, in that order, until the first failure."""

    def __init__(self, root_fd: int, memory: memoryview) -> None:
        self.creator = Creator(root_fd)
        self.failure: tuple[int, str] | None = None
        self._memory = memory
        self._fd = -1
        self._entry: Entry | None = None
        self._left = 0
        self._sparse: SparseFile | None = None

    def make_all(self, items: list[Item]) -> None:
        name = b""
        try:
            for fields, start, end in items:
                data = self._memory[start:end]
                if fields is None:
                    self._more(data)
                else:
                    entry = Entry(*fields)  # type: ignore[arg-type]  # as they were taken from one
                    name = entry.name
                    self._make(entry, data)
        except OSError as error:
            failed = refusal(error, name or (self._entry.name if self._entry else b""))
            self.failure = (int(failed.code), str(failed))
        except JobFailed as error:
            self.failure = (int(error.code), str(error))
        except Exception as error:  # noqa: BLE001 - said by the process that asked
            self.failure = (int(Exit.RETRY), f"{type(error).__name__}: {error}")

    def _make(self, entry: Entry, data: memoryview) -> None:
        if entry.kind == FILE:
            self._file(entry, data)
        elif entry.kind == SYMLINK:
            self.creator.symlink(entry)
        else:
            self.creator.fifo(entry)

    def _file(self, entry: Entry, data: memoryview) -> None:
        self._fd = fd = self.creator.new_file(entry)
        if entry.real_size is None and len(data) == entry.size:
            if data:
                write_all(fd, data)
            self._finish(fd, entry)
        else:
            self._entry, self._left = entry, entry.size
            self._sparse = SparseFile(fd, entry) if entry.real_size is not None else None
            self._more(data)

    def _more(self, data: memoryview) -> None:
        assert self._entry is not None
        if self._sparse:
            self._sparse.write(data)
        else:
            write_all(self._fd, data)
        self._left -= len(data)
        if not self._left:
            if self._sparse:
                self._sparse.finish()
            self._finish(self._fd, self._entry)
            self._entry = self._sparse = None

    def _finish(self, fd: int, entry: Entry) -> None:
        self.creator.finish_file(fd, entry)
        os.close(fd)


def write_all(fd: int, data: memoryview) -> None:
    while len(data := data[os.write(fd, data) :]):
        pass


def main() -> None:
    """Arguments: the parent's pid, and three open files: the volume's root, the shared memory, the socket."""
    parent, root_fd, memory_fd, socket_fd = map(int, sys.argv[-4:])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    os.umask(0)  # everything is created with the mode that it is to have
    with Connection(socket_fd) as orders, mmap.mmap(memory_fd, 0) as shared, memoryview(shared) as memory:
        maker = Maker(root_fd, memory)
        while True:
            try:
                slab, items = marshal.loads(orders.recv_bytes())  # noqa: S302 - from our own parent
            except EOFError:
                break
            if not maker.failure:
                maker.make_all(items)
            orders.send_bytes(marshal.dumps((slab, maker.creator.dropped, maker.failure)))
        del maker
    os._exit(0)
