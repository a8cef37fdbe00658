"""How long the job asks a store again that is out: the longer it has worked, the longer it tries."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from .protocol import StoreUnreachable

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
LONGEST = 240.0  # seconds: less than an operation may go without progress

T = TypeVar("T")


class Patience:
    """Of one transfer, from now on."""

    def __init__(
        self, retry: float, *, now: Callable[[], float] = time.monotonic, first_pause: float = FIRST_PAUSE
    ) -> None:
        """`retry`: seconds for which it tries again at least."""
        self._retry, self._now, self._first_pause = retry, now, first_pause
        self._began = now()
        self.stopping = threading.Event()  # set by whoever gives the transfer up

    def call(self, attempt: Callable[[], T]) -> T:
        """Again after an outage, with growing pauses."""
        pause, failed_at = self._first_pause, None
        while True:
            try:
                return attempt()
            except StoreUnreachable:
                now = self._now()
                failed_at = failed_at or now
                patience = max(self._retry, min(failed_at - self._began, LONGEST))
                if now + pause - failed_at > patience or self.stopping.wait(pause):
                    raise
                pause = min(pause * 2, LONGEST_PAUSE)
