"""The volume of a job: opened once, and locked against every other job on it.

The lock belongs to the open file, which the processes that make files share: it is free only when all of a killed job
is gone. Drivers see to that anyway; here it costs nothing.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .closed import open_closed
from .home import FOLDER_FLAGS
from .protocol import TryAgain

LOCK_SECONDS = 20.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def opened_volume(directory: str, seconds: float = LOCK_SECONDS) -> Iterator[int]:
    """Its root as an open folder, ours alone; TryAgain if another job has it for longer than this."""
    try:
        root = _open(directory, FOLDER_FLAGS & ~os.O_NOFOLLOW)
    except OSError as error:
        raise TryAgain(f"the volume cannot be opened: {error.strerror}") from error
    try:
        _lock(root, seconds)
        yield root
    finally:
        os.close(root)


def _open(directory: str, flags: int) -> int:
    try:
        return os.open(directory, flags)
    except PermissionError:  # also a home that its owner closed
        return open_closed(directory, flags)


def _lock(root: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TryAgain("another job is at work on this volume") from None
            time.sleep(0.05)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            raise
