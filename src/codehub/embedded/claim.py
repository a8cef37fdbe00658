"""The claim on a server's data: two servers never write the same files.

The claim is a lock on a file whose descriptor the server inherits and keeps. It is free exactly when the last process
of that server has gone, however CodeHub itself ended, and no stale file can make it seem otherwise. A server left
over from a killed CodeHub is already stopping by itself (`guard.py`); here it is asked once more and waited for.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codehub.embedded.process import Steps
from codehub.errors import StartError

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Territory:
    """What a server claims: its data folder, the lock beside it, and the program that would be found there."""

    title: str
    folder: Path
    lock: Path
    program: str


@contextmanager
def claim_file(territory: Territory) -> Iterator[int]:
    """The descriptor of the lock; the lock itself outlives this block where a server has inherited it."""
    descriptor = os.open(territory.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def claim(descriptor: int, territory: Territory, steps: Steps, progress: Callable[[str], None]) -> None:
    """Return once nobody else has the territory; ask a server that is left over to stop."""
    if _is_free(descriptor, territory):
        return
    progress(f"Waiting for an earlier {territory.title} to stop")
    for number, seconds in steps:
        for pid in _leaders(inhabitants(territory)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if await _becomes_free(descriptor, territory, seconds):
            return
    pids = " ".join(map(str, inhabitants(territory)))
    who, how = (f" (pid {pids})", f" (kill -9 {pids})") if pids else ("", "")
    raise StartError(
        f"An earlier {territory.title}{who} still uses {territory.folder} and does not stop.",
        f"End it{how} and start again.",
    )


def inhabitants(territory: Territory) -> list[int]:
    """The server processes at work in the folder. Both servers make their data folder their working directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or belongs to somebody else
            program = (entry / "exe").readlink().name.removesuffix(" (deleted)")
            if program == territory.program and (entry / "cwd").readlink() == territory.folder:
                found.append(int(entry.name))
    return found


def _is_free(descriptor: int, territory: Territory) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # A server that somebody started by hand has no claim, but is just as dangerous.
    return not inhabitants(territory)


async def _becomes_free(descriptor: int, territory: Territory, seconds: float) -> bool:
    until = asyncio.get_running_loop().time() + seconds
    while not _is_free(descriptor, territory):
        if asyncio.get_running_loop().time() > until:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _leaders(pids: list[int]) -> list[int]:
    """Those not started by another of them: a server's helpers take such signals to mean other things."""
    return [pid for pid in pids if _parent_of(pid) not in pids]


def _parent_of(pid: int) -> int:
    try:
        # The program's name, in parentheses, may itself hold spaces and parentheses.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
