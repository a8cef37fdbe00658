"""What is left of instances that were removed goes a while later, and that of many together.

An instance is gone once its folders are renamed away. A program that removes them costs as much as killing what ran,
for each of a hundred that stop at once; and some file systems (ext4 without a journal) look at every file that was
removed in the last minutes whenever one is made, so that each start after many stops takes longer than the one before.
Homes do not come here: they may be large.
"""

import threading
from contextlib import suppress

from codehub.drivers.process.layout import Layout

LATER_SECONDS = 120.0


class Trash:
    """May be used by any number of threads. What is not emptied when we end is emptied by who opens the folder next."""

    def __init__(self, layout: Layout, seconds: float = LATER_SECONDS) -> None:
        self._layout = layout
        self._seconds = seconds
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def empty_later(self) -> None:
        """Something was thrown away; one wait for all that is until then."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self._empty)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _empty(self) -> None:
        with self._lock:
            self._timer = None
        with suppress(OSError):  # a disk that has gone
            self._layout.empty_trash()
