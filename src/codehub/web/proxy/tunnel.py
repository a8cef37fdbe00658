"""A WebSocket: bytes both ways, untouched, with back-pressure; frames are only looked at to tell activity."""

import asyncio
from collections.abc import Callable

from codehub.web.proxy.activity import FrameScanner
from codehub.web.proxy.engine import Engine, Stuck, stuck_since
from codehub.web.proxy.places import Origin
from codehub.web.proxy.ports import Route


def _nothing_counts(_: bytes) -> bool:
    return False


class _End(asyncio.Protocol):
    """One side."""

    __slots__ = ("_now", "_route", "_scan", "_tunnel", "other", "stuck", "transport")
    other: "_End"

    def __init__(self, tunnel: "Tunnel", transport: asyncio.Transport, *, counts: bool) -> None:
        self.transport = transport
        self.stuck: Stuck | None = None  # while it does not take what was written
        self._scan: Callable[[bytes], bool] = FrameScanner().feed if counts else _nothing_counts
        self._tunnel = tunnel
        self._route, self._now = tunnel.route, tunnel.now

    def data_received(self, data: bytes) -> None:
        self.other.transport.write(data)
        if self._scan(data):
            self._route.used_at = self._now()

    def pause_writing(self) -> None:
        self.stuck = (0, self._now())
        if not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.stuck = None
        if not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tunnel.lost(self, exc)


class Tunnel:
    """Both sides."""

    __slots__ = ("_client", "_deadline", "_engine", "_open_ends", "_origin", "_upstream", "now", "route")

    def __init__(
        self,
        engine: Engine,
        route: Route,
        client: asyncio.Transport,
        upstream: asyncio.Transport,
        origin: Origin,
        *,
        counts: bool = True,
    ) -> None:
        self.route = route
        self.now = engine.now
        self._engine = engine
        self._deadline: float | None = None
        self._open_ends = 2
        self._client, self._upstream = _End(self, client, counts=counts), _End(self, upstream, counts=counts)
        self._client.other, self._upstream.other = self._upstream, self._client
        client.set_protocol(self._client)
        upstream.set_protocol(self._upstream)
        self._origin = origin
        engine.tunnels.add(self)
        route.open.add(self)

    def begin(self, from_client: bytes, from_upstream: bytes) -> None:
        """With what had already arrived."""
        if from_client:
            self._client.data_received(from_client)
        if from_upstream:
            self._upstream.data_received(from_upstream)

    def end(self) -> None:
        self._client.transport.abort()
        self._upstream.transport.abort()

    def drain(self) -> None:
        """Kept until the time for it is over; whoever is there reconnects then."""

    def lost(self, end: _End, exc: Exception | None) -> None:
        self._open_ends -= 1
        if self._open_ends == 0:
            self._engine.tunnels.discard(self)
            self._engine.places.leave(self._origin)
            self.route.open.discard(self)
        elif exc is None:
            end.other.transport.close()  # what was written goes out first …
            self._deadline = self.now() + self._engine.limits.half_closed_seconds  # … but not for ever
        else:
            end.other.transport.abort()

    def check(self, now: float) -> None:
        if self._deadline is not None and now > self._deadline:
            self.end()
        for side in (self._client, self._upstream):
            if side.stuck is not None:
                side.stuck = stuck_since(side.stuck, side.transport, now)
                if now - side.stuck[1] > self._engine.limits.stalled_seconds:
                    self.end()
