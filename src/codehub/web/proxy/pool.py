"""Connections to upstreams that wait for their next request, under the key of what they lead to.

Never under an address: that one may be somebody else's tomorrow. Bounded per key and in all, and none waits for longer
than servers commonly leave a connection open.
"""

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from codehub.web.proxy.limits import Limits

_FRESH_SECONDS = 1.0


class Kept(Protocol):
    """A connection between two requests."""

    key: Hashable
    idle_since: float

    def is_open(self) -> bool: ...

    def close(self) -> None: ...


K = TypeVar("K", bound=Kept)


class Pool(Generic[K]):
    """The newest are used first, so that those that are not needed grow old."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: dict[Hashable, list[K]] = {}
        self._total = 0

    def take(self, key: Hashable, now: float, *, replayable: bool) -> K | None:
        """One that is open. For a request that cannot be sent twice only one that was used a moment ago."""
        kept = self._kept.get(key)
        while kept:
            one = kept.pop()
            self._total -= 1
            if one.is_open() and (replayable or now - one.idle_since < _FRESH_SECONDS):
                return one
            one.close()
        return None

    def put(self, one: K, now: float) -> None:
        kept = self._kept.get(one.key)
        if kept is None:
            kept = self._kept[one.key] = []
        if len(kept) >= self._limits.pool_per_key or self._total >= self._limits.pool_total:
            one.close()
            return
        one.idle_since = now
        kept.append(one)
        self._total += 1

    def forget(self, one: K) -> None:
        """It closed by itself."""
        kept = self._kept.get(one.key)
        if kept is None or one not in kept:
            return
        kept.remove(one)
        self._total -= 1

    def sweep(self, now: float) -> None:
        """Close those that waited too long, and everything with now=inf."""
        for key, kept in list(self._kept.items()):
            for one in [one for one in kept if now - one.idle_since >= self._limits.pool_seconds]:
                self.forget(one)
                one.close()
            if not kept:
                del self._kept[key]

    def __len__(self) -> int:
        return self._total
