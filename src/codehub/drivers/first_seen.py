"""How long things have been there, by our own monotonic clock: since we first saw them (ADR 18).

What a container or a pod says of its age is by its machine's clock, which may be a day off from ours. Whoever starts
anew has seen nothing yet: that only ever gives more time.
"""

import time
from collections.abc import Callable, Collection, Mapping


class FirstSeen:
    """Of what one kind of listing shows, by whatever names it for good."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def ages(self, ids: Collection[str]) -> Mapping[str, float]:
        """Seconds since each was first listed; exactly these are there, the others are forgotten."""
        now = self._clock()
        self._since = {one: self._since.get(one, now) for one in ids}
        return {one: now - since for one, since in self._since.items()}
