"""What is the same for every client's connection: whose it is, its limits in time and number, and how it ends."""

import asyncio
import socket
import struct
from enum import Enum, auto

from codehub.web import forwarded
from codehub.web.proxy import answers
from codehub.web.proxy.engine import Engine, stuck_since
from codehub.web.proxy.places import Origin

_RESET = struct.pack("ii", 1, 0)


class State(Enum):
    """Of a connection; see client.py."""

    HEAD = auto()
    DECIDING = auto()
    EXCHANGE = auto()
    LINGERING = auto()
    CLOSED = auto()


HEAD, DECIDING, EXCHANGE, LINGERING, CLOSED = State  # by these names they are found at once


class Connection(asyncio.Protocol):
    """From a browser or a program."""

    __slots__ = (
        "_address",
        "_buffer",
        "_can_read",
        "_can_write",
        "_deadline",
        "_engine",
        "_has_ended",
        "_here",
        "_is_trusted",
        "_is_unasked",
        "_origin",
        "_state",
        "_stuck",
        "transport",
    )
    transport: asyncio.Transport

    def __init__(self, engine: Engine, origin: Origin | None = None) -> None:
        """With an origin it has its place already (accepting.py)."""
        self._engine = engine
        self._origin = origin
        self._is_unasked = True  # it has not sent a whole request yet (places.py)
        self._state = HEAD
        self._buffer = b""  # what came before its turn
        self._has_ended = False  # the client will send no more
        self._can_read = True
        self._can_write = True
        self._stuck = (0, 0.0)  # bytes that wait for a slow client, since when
        self._deadline: float | None = None
        self._address = ""
        self._here = b""
        self._is_trusted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        engine, limits = self._engine, self._engine.limits
        self.transport = transport
        peer, name = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._here = _authority(name[0], name[1]) if isinstance(name, tuple) else b"localhost"
        self._address = (forwarded.address(peer[0]) if peer else None) or ""
        self._is_trusted = forwarded.is_trusted(self._address, engine.trusted)
        engine.clients.add(self)
        if self._origin is not None:
            engine.greeting -= 1
        elif not self._take_place():
            transport.write(answers.answer_bytes(answers.TOO_MANY, close=True))
            self._close()
            return
        transport.set_write_buffer_limits(high=limits.write_bytes)
        self._deadline = engine.now() + limits.head_seconds

    def is_connected(self) -> bool:
        """Whether it was ever told of its transport."""
        return hasattr(self, "transport")

    def _take_place(self) -> bool:
        """Whether there is room for it."""
        self._origin = self._engine.origin_of(self._address)
        return self._engine.admit(self, self._origin)

    def give_way(self) -> None:
        """Another one needs its place."""
        self.end()

    def idle_until(self) -> float | None:
        """When its time is over, if it waits for its next request, or does not take the answer to its last."""
        if self._state is not HEAD:
            return None
        return self._deadline if self._can_write else self._stuck[1] + self._engine.limits.stalled_seconds

    def connection_lost(self, _exc: Exception | None) -> None:
        self._state = CLOSED
        self._engine.clients.discard(self)
        self._leave_place()

    def _leave_place(self) -> None:
        if self._origin is not None:
            self._engine.places.asked(self)
            self._engine.places.leave(self._origin)

    def pause_writing(self) -> None:
        self._can_write = False
        self._stuck = (0, self._engine.now())

    def resume_writing(self) -> None:
        self._can_write = True

    def check(self, now: float) -> None:
        """End it if its time is over; while something waits for the client, only the client is to blame."""
        if not self._can_write:
            self._stuck = stuck_since(self._stuck, self.transport, now)
            if now - self._stuck[1] > self._engine.limits.stalled_seconds:
                self.end()
        elif self._deadline is not None and now > self._deadline:
            self._expire()

    def _expire(self) -> None:
        if self._state in (DECIDING, EXCHANGE):
            self.end()
        else:
            self._state = CLOSED
            self.transport.abort()

    def drain(self) -> None:
        """No further requests; what is under way may end."""
        if self._state is HEAD and not self._buffer:
            self._close()

    def end(self) -> None:
        """Cut off; by a reset, so that nothing that was cut looks whole."""
        self._state = CLOSED
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self.transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _finish(self, *, was_whole: bool) -> None:
        """Close, so that what was written arrives: a client that still sends is read from for a while."""
        if was_whole or self._has_ended or self._engine.is_tls:
            self._close()
            return
        self._state = LINGERING
        self._buffer = b""
        self._deadline = self._engine.now() + self._engine.limits.linger_seconds
        self.transport.write_eof()
        self._read(True)

    def _close(self) -> None:
        """Once what was written has gone out; a client that does not take it is not waited for without end."""
        self._state = CLOSED
        self._deadline = self._engine.now() + self._engine.limits.stalled_seconds
        self.transport.close()

    def _read(self, wanted: bool) -> None:
        if wanted is not self._can_read and not self.transport.is_closing():
            self._can_read = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


def _authority(host: str, port: int) -> bytes:
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
