"""A proxy on uvloop in a thread, upstreams that answer as a test says, and clients that speak raw bytes."""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

import uvloop
from prometheus_client import CollectorRegistry

from codehub.model.workspace import WorkspaceId
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Decision, Refusal, Request, Route
from codehub.web.proxy.serving import serve
from codehub.web.proxy.tls import Certificate
from codehub.web.server import listen

SECONDS = 10.0  # until a socket that says nothing fails a test
WORKSPACE = WorkspaceId(UUID(int=7))
GONE = Refusal(502, "gone", "It is gone.")


class Peer:
    """A socket to read and write by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.unread = b""
        sock.settimeout(SECONDS)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def until(self, mark: bytes) -> bytes:
        """Everything up to the mark, with it."""
        while mark not in self.unread:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError(f"closed before {mark!r}, after {self.unread[-200:]!r}")
            self.unread += more
        end = self.unread.index(mark) + len(mark)
        found, self.unread = self.unread[:end], self.unread[end:]
        return found

    def head(self) -> bytes:
        return self.until(b"\r\n\r\n")

    def exactly(self, size: int) -> bytes:
        while len(self.unread) < size:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError(f"closed after {len(self.unread)} of {size} bytes")
            self.unread += more
        found, self.unread = self.unread[:size], self.unread[size:]
        return found

    def rest(self) -> bytes:
        """Everything until the other side closes; ConnectionResetError if it was cut off."""
        while more := self.sock.recv(65536):
            self.unread += more
        found, self.unread = self.unread, b""
        return found

    def end_sending(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close as a machine that crashed does."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def answer(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """A response with a length."""
        status, fields = parsed(self.head())
        return status, fields, self.exactly(int(fields.get(b"content-length", b"0")))


def parsed(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Status and fields of a response's head."""
    line, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    return int(line.split()[1]), dict(line.split(b": ", 1) for line in lines)


Handler = Callable[[Peer], None]


@dataclass
class Upstream:
    """Where requests end up: one thread per connection, which does what the test says."""

    handler: Handler
    listener: socket.socket
    connections: list[Peer] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer = Peer(sock)
                self.connections.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        try:
            self.handler(peer)
        except (EOFError, OSError):
            pass  # the proxy left
        except BaseException as failure:  # noqa: BLE001 - told when it ends
            self.failures.append(failure)
        finally:
            peer.close()


@contextmanager
def upstream(handler: Handler, port: int = 0) -> Iterator[Upstream]:
    made = Upstream(handler, listener=socket.create_server(("127.0.0.1", port), backlog=512))
    threading.Thread(target=made.accept, daemon=True).start()
    try:
        yield made
    finally:
        made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()
        for peer in made.connections:
            peer.close()
    assert not made.failures, made.failures


@dataclass
class PlainGate:
    """Sends everything one way, or where `choose` says."""

    only: Route
    after_failure: Decision = GONE
    choose: Callable[[Request], Decision | Awaitable[Decision]] | None = None
    requests: list[Request] = field(default_factory=list)

    def route(self, request: Request) -> Decision | Awaitable[Decision]:
        self.requests.append(request)
        return self.choose(request) if self.choose else self.only

    def failed(self, _tried: Sequence[Route], _request: Request) -> Decision | Awaitable[Decision]:
        return self.after_failure


@dataclass
class Proxy:
    """A running one."""

    gate: PlainGate
    port: int
    stop: Callable[[], None]
    call: Callable[[Callable[[], object]], object]  # in the proxy's thread
    end: Callable[[], None]  # stop, and wait for it
    clients: list[Peer] = field(default_factory=list)

    def connect(self) -> Peer:
        self.clients.append(Peer(socket.create_connection(("127.0.0.1", self.port))))
        return self.clients[-1]

    def accepts(self) -> bool:
        try:
            self.connect()
        except ConnectionError:  # refused, or just being closed
            return False
        return True

    def ask(self, request: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
        """One request on a connection of its own."""
        peer = self.connect()
        try:
            peer.send(request)
            return peer.answer()
        finally:
            peer.close()


@contextmanager
def proxy(
    gate: PlainGate,
    limits: Limits | None = None,
    *,
    trusted: tuple[str, ...] = (),
    tls: Certificate | None = None,
    public_url: str | None = None,
    beside: socket.socket | None = None,
    registry: CollectorRegistry | None = None,
) -> Iterator[Proxy]:
    """`beside`: one more socket that it listens on."""
    listener = listen("127.0.0.1", 0)
    loop = uvloop.new_event_loop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    listeners = [listener] if beside is None else [listener, beside]
    task = loop.create_task(
        serve(gate, listeners, limits, trusted_proxies=trusted, tls=tls, public_url=public_url, registry=registry)
    )

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def stop() -> None:
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)

    def end() -> None:
        for peer in running.clients:
            peer.close()
        stop()
        thread.join(SECONDS * 2)
        assert not thread.is_alive(), "the proxy does not stop"

    running = Proxy(gate, listener.getsockname()[1], stop, loop.call_soon_threadsafe, end)
    try:
        yield running
    finally:
        end()
        loop.close()
    assert not errors, errors


QUICK = Limits(drain_seconds=0.3, tunnel_seconds=0.3)


@contextmanager
def through(
    handler: Handler,
    limits: Limits = QUICK,
    *,
    workspace: bool = True,
    strip: bytes = b"",
    trusted: tuple[str, ...] = (),
) -> Iterator[tuple[Proxy, Upstream]]:
    """A proxy in front of one upstream."""
    with upstream(handler) as there:
        route = Route(
            "one",
            there.address,
            WORKSPACE if workspace else None,
            strip=strip,
            cookie_path=strip + b"/" if strip else b"/",
            good_until=float("inf"),  # so that whatever is sent again takes the short way
        )
        with proxy(PlainGate(route), limits, trusted=trusted) as here:
            yield here, there


def ok(peer: Peer, body: bytes = b"ok") -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def echo_heads(peer: Peer) -> None:
    """Answers every request with the head it came with."""
    while True:
        ok(peer, peer.head())
