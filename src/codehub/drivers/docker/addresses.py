"""Which address a new workspace gets: never one that was just another's.

The engine would give the lowest free one, so the next workspace to start has the address of the last one to end, and
whoever still holds that address (a proxy, a row that is a second old) would reach somebody else's editor.
"""

import random
import time
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv4Network

_SAMPLE = 64  # enough to find one that was long unused, however large the network
_draw = random.SystemRandom()


class Addresses:
    """Chooses at random, and of what it drew the one that was given longest ago; remembers as long as we live."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._given: dict[IPv4Address, float] = {}
        self._clock = clock

    def choose(self, subnet: IPv4Network, taken: Collection[IPv4Address]) -> IPv4Address | None:
        """One that is free now; None if there is none."""
        first, last = int(subnet.network_address) + 1, int(subnet.broadcast_address) - 1
        drawn = _draw.sample(range(first, last + 1), min(_SAMPLE, last + 1 - first))
        free = [address for address in map(IPv4Address, drawn) if address not in taken]
        if not free and last + 1 - first > _SAMPLE:
            free = [address for address in subnet.hosts() if address not in taken]
        if not free:
            return None
        chosen = min(free, key=lambda address: self._given.get(address, float("-inf")))
        self._given[chosen] = self._clock()
        return chosen
