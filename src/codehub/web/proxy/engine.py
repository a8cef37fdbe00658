"""What the connections of one process share: the gate, the limits, kept upstreams, and who is connected."""

import asyncio
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address
from typing import Protocol

from codehub.web.forwarded import Networks, is_trusted
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.measures import Tally
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


_HOME_BYTES = 8  # of an IPv6 address: the network that one customer has
Stuck = tuple[int, float]  # bytes that wait for somebody who does not take them, since when


def stuck_since(before: Stuck, transport: asyncio.Transport, now: float) -> Stuck:
    """Looked at again: time counts from when something of it was last taken."""
    waiting = transport.get_write_buffer_size()
    return before if waiting == before[0] else (waiting, now)


def counted_as(address: str, trusted: Networks) -> str | None:
    """Under which name its connections are counted; None for a trusted proxy, whose clients are many."""
    if is_trusted(address, trusted):
        return None
    return f"{ip_address(address).packed[:_HOME_BYTES].hex()}/64" if ":" in address else address


class Engine:
    """One process's, whatever the number of sockets that it listens on."""

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
        self.greeting = 0  # TLS handshakes
        self.tally = Tally()
        self._per_address: Counter[str] = Counter()
        self.is_draining = False

    def connections(self) -> int:
        return len(self.clients) + len(self.tunnels) + self.greeting

    def admit(self, counted: str | None) -> bool:
        """One more (see counted_as), to be dismissed once in any case: whether there is room for it."""
        is_one_too_many = self.connections() > self.limits.connections
        if counted is not None:
            self._per_address[counted] += 1
            is_one_too_many |= self._per_address[counted] > self.limits.connections_per_address
        self.tally.turned_away += is_one_too_many
        return not is_one_too_many

    def dismiss(self, counted: str | None) -> None:
        if counted is not None:
            self._per_address[counted] -= 1
            if not self._per_address[counted]:
                del self._per_address[counted]

    def sweep(self) -> None:
        """Everything whose time is over, once a second: cheaper than a timer for each."""
        now = self.now()
        self.pool.sweep(now)
        for one in (*self.clients, *self.tunnels):
            one.check(now)
