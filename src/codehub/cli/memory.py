"""What a process that runs for months takes of memory: what it needs, and not the most that each thread ever needed.

The C library keeps freed memory for the thread that had it, and learns to keep blocks of megabytes, too: with a dozen
threads that read archives in such blocks, resident memory grew for many minutes and stayed there.
"""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3)
_OPTIONS = {_ARENA_MAX: 2, _MMAP_THRESHOLD: 256 << 10, _TRIM_THRESHOLD: 128 << 10}


def keep_flat() -> None:
    """For this process, as early as possible. Nothing where the C library has no such options."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in _OPTIONS.items():
            mallopt(option, value)
