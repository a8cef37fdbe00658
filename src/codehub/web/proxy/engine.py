"""What the connections of one process share: the gate, the limits, kept upstreams, and who is connected."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from codehub.web.forwarded import Networks
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.measures import Tally
from codehub.web.proxy.places import Holder, Origin, Places, origin_of
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


class Client(Watched, Holder, Protocol):
    """A connection, from its first byte on."""


Stuck = tuple[int, float]  # bytes that wait for somebody who does not take them, since when


def stuck_since(before: Stuck, transport: asyncio.Transport, now: float) -> Stuck:
    """Looked at again: time counts from when something of it was last taken."""
    waiting = transport.get_write_buffer_size()
    return before if waiting == before[0] else (waiting, now)


class Engine:
    """One process's, whatever the number of sockets that it listens on."""

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        trusted: Networks,
        *,
        is_tls: bool,
        is_secure: bool | None,
        health: Networks = (),
    ) -> None:
        self.gate = gate
        self.limits = limits
        self.trusted = trusted
        self.health = health
        self.is_tls = is_tls
        self.is_secure = is_secure  # whether browsers speak TLS, where a setting says so
        self.loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = self.loop.time
        self.pool: Pool[Upstream] = Pool(limits)
        self.clients: set[Client] = set()
        self.tunnels: set[Watched] = set()
        self.greeting = 0  # TLS handshakes
        self.tally = Tally()
        self.places = Places(limits, self.tally)
        self.is_draining = False

    def origin_of(self, address: str) -> Origin:
        return origin_of(address, self.trusted, self.health)

    def admit(self, holder: Holder, origin: Origin) -> bool:
        """One more, to be dismissed once in any case: whether there is room for it."""
        has_room = self.places.take(holder, origin, self.now())
        self.tally.turned_away += not has_room
        return has_room

    def know(self, origin: Origin) -> None:
        """Somebody logged in comes from there."""
        self.places.know(origin, self.now())

    def sweep(self) -> None:
        """Everything whose time is over, once a second: cheaper than a timer for each."""
        now = self.now()
        self.pool.sweep(now)
        for one in (*self.clients, *self.tunnels):
            one.check(now)
        self.places.sweep(self.clients, now)
