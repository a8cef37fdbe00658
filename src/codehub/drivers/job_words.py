"""What storage jobs said last, by their ids: an ended one is read once, a running one not more often than is told.

Reading costs a request for each job, and there is an observation whenever anything happens anywhere.
"""

import math
import time
from collections.abc import Awaitable, Callable, Collection


class Words:
    """`again_after` seconds a job that runs is read again."""

    def __init__(self, again_after: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._again_after = again_after
        self._clock = clock
        self._known: dict[str, tuple[str, float]] = {}  # and until when that is new enough

    def keep(self, ids: Collection[str]) -> None:
        """Only these are there."""
        self._known = {job: known for job, known in self._known.items() if job in ids}

    async def of(self, job: str, read: Callable[[], Awaitable[str]], *, has_ended: bool) -> str:
        now = self._clock()
        text, until = self._known.get(job, ("", -math.inf))
        if now < until and (until == math.inf or not has_ended):
            return text
        text = await read()
        self._known[job] = (text, math.inf if has_ended else now + self._again_after)
        return text
