"""What the connections of one process share: the gate, the limits, kept upstreams, and who is connected."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from codehub.web.forwarded import Networks
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.pool import Pool
from codehub.web.proxy.ports import Gate
from codehub.web.proxy.upstream import Upstream


class Watched(Protocol):
    """Something that must not last for ever."""

    def check(self, now: float) -> None:
        """End it if its time is over."""
        ...

    def drain(self) -> None:
        """No further requests; what is under way may end."""
        ...

    def end(self) -> None: ...


class Engine:
    """One process's."""

    def __init__(self, gate: Gate, limits: Limits, trusted: Networks, *, is_tls: bool, is_secure: bool | None) -> None:
        self.gate = gate
        self.limits = limits
        self.trusted = trusted
        self.is_tls = is_tls
        self.is_secure = is_secure  # whether browsers speak TLS, where a setting says so
        self.loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = self.loop.time
        self.pool: Pool[Upstream] = Pool(limits)
        self.clients: set[Watched] = set()
        self.tunnels: set[Watched] = set()
        self._per_address: Counter[str] = Counter()
        self.is_draining = False

    def connections(self) -> int:
        return len(self.clients) + len(self.tunnels)

    def count(self, address: str | None) -> int:
        """One more from this address: how many there are. None is not counted."""
        if address is None:
            return 0
        self._per_address[address] += 1
        return self._per_address[address]

    def uncount(self, address: str | None) -> None:
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def sweep(self) -> None:
        """Everything whose time is over, once a second: cheaper than a timer for each."""
        now = self.now()
        self.pool.sweep(now)
        for one in (*self.clients, *self.tunnels):
            one.check(now)
