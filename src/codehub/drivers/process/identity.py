"""Which process is meant: a pid alone is not enough, since pids are given out again.

A process is its pid, the time it started (field 22 of /proc/PID/stat) and the boot that was in. What does not match in
all three is somebody else: it is neither taken for ours nor killed. A zombie has ended; only its parent has not asked.
"""

import functools
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_STAT_BYTES = 4096


@functools.cache
def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class Proc:
    """A process as /proc shows it now."""

    pid: int
    parent: int
    started: int  # clock ticks since boot
    is_zombie: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """A process as it was written down."""

    pid: int
    started: int
    boot: str

    def find(self) -> Proc | None:
        """The very same process, if it still runs."""
        found = proc(self.pid)
        if found is None or found.started != self.started or self.boot != boot_id():
            return None
        if found.is_zombie:
            if found.parent == os.getpid():  # handed to us when it lost its parent: we are a container's first process
                with suppress(ChildProcessError):
                    os.waitpid(self.pid, os.WNOHANG)
            return None
        return found


def proc(pid: int) -> Proc | None:
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # a Path would cost more than the reading
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        stat = os.read(descriptor, _STAT_BYTES)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    # The program's name, in parentheses, may itself hold spaces and parentheses.
    fields = stat.rpartition(b")")[2].split()
    return Proc(pid, int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X"))


def everything() -> Iterator[Proc]:
    """Every process that has not ended."""
    for name in os.listdir(_PROC):  # noqa: PTH208 - a Path for each of thousands costs more than the reading
        if name.isdigit() and (found := proc(int(name))) is not None and not found.is_zombie:
            yield found


def is_there(found: Proc) -> bool:
    """Whether exactly this process has not ended yet."""
    again = proc(found.pid)
    return again is not None and again.started == found.started and not again.is_zombie


def users_of(pid: int) -> frozenset[int]:
    """Its four user ids. (The owner of /proc/PID can be changed by the process itself.)"""
    try:
        status = (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return frozenset()
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), "")
    return frozenset(map(int, line.split()[1:]))


def kill(found: Proc, number: signal.Signals = signal.SIGKILL) -> None:
    """Send it to exactly this process: the descriptor keeps the pid from being given to another in between."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(found.pid)
        try:
            again = proc(found.pid)
            if again is not None and again.started == found.started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
