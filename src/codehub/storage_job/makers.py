"""The processes that make files, from the side of the one that reads the archive.

Content is in slabs of shared memory; a slab is free again when every maker that was given a part of it says so. A maker
that dies or fails fails the job.
"""

import marshal
import mmap
import os
import socket
import subprocess
import sys
from multiprocessing.connection import Connection, wait
from pathlib import Path

from .maker import Item
from .protocol import Corrupted, Exit, JobFailed, TryAgain

SLAB = 1 << 20
SLABS = 24
MAKERS = 2
_HERE = Path(__file__).parent
# Only the standard library is needed: without site packages a maker is there in a few milliseconds.
_PROGRAM = f"import sys; sys.path.append(sys.argv[1]); from {_HERE.name}.maker import main; main()"


class Makers:
    """A few makers and the memory they share with us."""

    def __init__(self, root_fd: int) -> None:
        memory_fd = os.memfd_create("slabs")
        os.ftruncate(memory_fd, SLAB * SLABS)
        self._memory = memoryview(mmap.mmap(memory_fd, SLAB * SLABS))  # unmapped with its last view
        self._free = list(range(SLABS))
        self._parts = [0] * SLABS
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sockets: list[Connection] = []
        try:
            for _ in range(MAKERS):
                self._start(root_fd, memory_fd)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory_fd)
        self._waiting = [0] * MAKERS  # orders that each has not answered
        self._dropped = [0] * MAKERS

    def _start(self, root_fd: int, memory_fd: int) -> None:
        ours, theirs = socket.socketpair()
        self._sockets.append(Connection(ours.detach()))
        with theirs:
            kept = (root_fd, memory_fd, theirs.fileno())
            command = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, str(_HERE.parent)]
            command += map(str, (os.getpid(), *kept))
            self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=kept))  # noqa: S603 - ours

    @property
    def dropped(self) -> int:
        return sum(self._dropped)

    def slab(self) -> int:
        """A slab that nobody uses."""
        self._hear(0)
        while not self._free:
            self._hear(None)
        return self._free.pop()

    def view(self, slab: int) -> memoryview:
        return self._memory[slab * SLAB : (slab + 1) * SLAB]

    def release(self, slab: int) -> None:
        """Nothing in it is for a maker."""
        self._free.append(slab)

    def least_busy(self) -> int:
        return self._waiting.index(min(self._waiting))

    def give(self, maker: int, slab: int, items: list[Item]) -> None:
        """Content of the slab for one maker; the slab is theirs until they are done."""
        self._parts[slab] += 1
        self._waiting[maker] += 1
        try:
            self._sockets[maker].send_bytes(marshal.dumps((slab, items)))
        except OSError as error:
            raise TryAgain("a part of the job died") from error

    def settle(self) -> None:
        """Until everything that was given is made."""
        while any(self._waiting):
            self._hear(None)

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()
        for process in self._processes:
            process.kill()
            process.wait()

    def _hear(self, seconds: float | None) -> None:
        for found in wait([*self._sockets], seconds):
            assert isinstance(found, Connection)
            maker = self._sockets.index(found)
            try:
                slab, dropped, failure = marshal.loads(found.recv_bytes())  # noqa: S302 - from our own child
            except (EOFError, OSError) as error:
                raise TryAgain("a part of the job died") from error
            self._waiting[maker] -= 1
            self._dropped[maker] = dropped
            if failure:
                raise rebuilt(*failure)
            self._parts[slab] -= 1
            if not self._parts[slab]:
                self._free.append(slab)


def rebuilt(code: int, message: str) -> JobFailed:
    return Corrupted(message) if code == Exit.CORRUPTED else TryAgain(message)
