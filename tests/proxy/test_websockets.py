"""WebSockets pass untouched: what a client and a server say to each other is the same with and without the proxy."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from codehub.db.doors import Came, Door, Opened
from codehub.model.visiting import Destination
from codehub.web.proxy.knocking import Knock
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Decision, Request, Route
from codehub.web.proxy.visitors import Visitors
from tests.proxy.test_activity import BINARY, KEEP_ALIVE, PING, frame
from tests.proxy.world import GONE, QUICK, WORKSPACE, Peer, PlainGate, proxy, through, upstream
from tests.support import eventually

UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
ACCEPT = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
)


async def _chat(server: ServerConnection) -> None:
    async for message in server:
        match message:
            case "close":
                await server.close(4321, "as you wish")
            case "pieces":
                await server.send(piece for piece in ("a", "b", "c"))
            case "ping":
                await (await server.ping(b"from the server"))
                await server.send("pong was here")
            case "big":
                await server.send(b"y" * (8 << 20))
            case "headers":
                assert server.request is not None
                await server.send(repr(sorted(server.request.headers.raw_items())))
            case "break":
                server.transport.abort()
            case _:
                await server.send(message)


async def _send_and_get(socket: ClientConnection) -> list[object]:
    found: list[object] = [socket.subprotocol, [type(one).__name__ for one in socket.protocol.extensions]]
    for message in (
        "hello",
        b"bytes",
        "",
        b"",
        "x" * 125,
        "x" * 126,
        "x" * 65535,
        b"x" * 65536,
        b"z" * (5 << 20),
        "pieces",
    ):
        await socket.send(message)
        found.append(await socket.recv())
    await socket.send(piece for piece in ("in ", "three ", "parts"))
    found.append(await socket.recv())
    await socket.send("pieces")
    found.append([piece async for piece in socket.recv_streaming()])
    await socket.send("ping")
    found.append(await socket.recv())
    await (await socket.ping(b"from the client"))
    await socket.send("big")
    found.append(len(await socket.recv()))
    return found


async def _closes_with(socket: ClientConnection, message: str) -> object:
    await socket.send(message)
    with pytest.raises(websockets.ConnectionClosed) as closed:
        await socket.recv()
    received = closed.value.rcvd
    return (received.code, received.reason) if received else None


async def _close(socket: ClientConnection) -> object:
    await socket.close(1001, "leaving")
    return (socket.close_code, socket.close_reason)


@asynccontextmanager
async def _both_ways(**options: object) -> AsyncIterator[Callable[..., Awaitable[list[object]]]]:
    """Runs something on a connection straight to the server, and on one through the proxy."""
    async with serve(_chat, "127.0.0.1", 0, max_size=None, **options) as server:  # type: ignore[arg-type]  # what each test changes
        port = next(iter(server.sockets)).getsockname()[1]
        with proxy(PlainGate(Route("one", f"127.0.0.1:{port}", WORKSPACE)), QUICK) as here:

            async def run(act: Callable[[ClientConnection], Awaitable[object]], **more: object) -> list[object]:
                found = []
                for target in (port, here.port):
                    async with connect(f"ws://127.0.0.1:{target}/", max_size=None, **more) as socket:  # type: ignore[arg-type]  # what each test changes
                        found.append(await act(socket))
                return found

            yield run
            await asyncio.to_thread(here.end)


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_messages_of_every_kind(compression: str | None) -> None:
    protocols = [Subprotocol("b"), Subprotocol("c")]
    async with _both_ways(subprotocols=[Subprotocol("a"), Subprotocol("b")], compression=compression) as run:
        straight, through_it = await run(_send_and_get, subprotocols=protocols, compression=compression)
        assert straight == through_it
        assert through_it[0] == "b"  # type: ignore[index]  # what `_send_and_get` returns


async def test_closing_from_either_side() -> None:
    async with _both_ways() as run:
        assert await run(lambda socket: _closes_with(socket, "close")) == [(4321, "as you wish")] * 2
        assert await run(lambda socket: _closes_with(socket, "break")) == [None] * 2
        assert await run(_close) == [(1001, "leaving")] * 2


async def test_an_origin_is_checked_when_there_is_one() -> None:
    async with serve(_chat, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with proxy(PlainGate(Route("one", f"127.0.0.1:{port}", WORKSPACE)), QUICK) as here:
            url, own = f"ws://127.0.0.1:{here.port}/", websockets.Origin(f"http://127.0.0.1:{here.port}")
            async with connect(url, origin=own) as socket:
                await socket.send("x")
                assert await socket.recv() == "x"
            with pytest.raises(websockets.InvalidStatus, match="403"):
                await connect(url, origin=websockets.Origin("http://evil.example"))
            await asyncio.to_thread(here.end)


async def test_behind_a_proxy_that_speaks_tls_the_public_url_says_so() -> None:
    async with serve(_chat, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        gate = PlainGate(Route("one", f"127.0.0.1:{port}", WORKSPACE))
        with proxy(gate, QUICK, public_url="https://hub.example") as here:
            url, own = f"ws://127.0.0.1:{here.port}/", websockets.Origin(f"https://127.0.0.1:{here.port}")
            async with connect(url, origin=own) as socket:
                await socket.send("x")
                assert await socket.recv() == "x"
            with pytest.raises(websockets.InvalidStatus, match="403"):
                await connect(url, origin=websockets.Origin(f"http://127.0.0.1:{here.port}"))
            await asyncio.to_thread(here.end)


def sockets(peer: Peer) -> None:
    """Accepts, and echoes bytes."""
    assert b"upgrade: websocket\r\n" in peer.head()
    peer.send(ACCEPT)
    while data := peer.unread or peer.sock.recv(65536):
        peer.unread = b""
        peer.send(data)


def test_bytes_around_the_upgrade_are_not_lost() -> None:
    def eager(peer: Peer) -> None:
        peer.head()
        peer.send(ACCEPT + b"first")
        peer.send(peer.exactly(5))
        peer.rest()

    with through(eager) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE + b"early")
        assert peer.head().startswith(b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: x\r\n")
        assert peer.exactly(10) == b"firstearly"


def test_what_is_refused_is_no_tunnel() -> None:
    def refuse(peer: Peer) -> None:
        while True:
            peer.head()
            peer.send(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")

    with through(refuse) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE + b"GET /smuggled\x00 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert peer.answer()[0] == 426
        assert peer.answer()[0] == 400


def test_the_end_of_a_visit_ends_its_sockets() -> None:
    with through(sockets) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        eventually(lambda: len(here.gate.only.open) == 1, "open")
        (tunnel,) = here.gate.only.open
        here.call(tunnel.end)
        with pytest.raises((ConnectionResetError, EOFError)):
            peer.exactly(1)
        eventually(lambda: not here.gate.only.open, "closed")


def test_either_side_s_end_is_the_other_s() -> None:
    left = threading.Event()

    def wait(peer: Peer) -> None:
        peer.head()
        peer.send(ACCEPT)
        peer.unread = b""
        if peer.exactly(1) == b"x":
            return
        try:
            peer.rest()
        finally:
            left.set()

    with through(wait) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        peer.send(b"x")
        assert peer.rest() == b""
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        peer.send(b"y")
        peer.close()
        assert left.wait(10)
        eventually(lambda: not here.gate.only.open, "closed")


def test_whoever_is_shown_out_before_the_way_is_made_is_asked_about_again() -> None:
    """Else the socket would be opened on a route that nobody ends any more."""
    visitors, knock = Visitors(30.0), Knock(Door(Came.VISIT, b"x" * 32, Destination(WORKSPACE)))
    with upstream(sockets) as there:
        visitors.settle(knock, Opened(there.address, uuid4(), None, None, False), time.monotonic(), is_new=True)
        visitor = visitors.get(knock)
        assert visitor is not None
        route = visitor.route

        def choose(_: Request) -> Decision:
            if visitor.is_out:
                return GONE
            asyncio.get_running_loop().call_soon(visitors.show_out, visitor)  # before anything else can be done
            return route

        with proxy(PlainGate(route, choose=choose), QUICK) as here:
            assert here.ask(UPGRADE)[0] == GONE.status
            assert len(here.gate.requests) == 2
        assert not there.connections
        assert not route.open


def test_activity_is_noted_for_messages_only() -> None:
    with through(sockets) as (here, _):
        route = here.gate.only
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        route.used_at = 0.0
        for silent in (frame(PING, b"", masked=True), frame(BINARY, KEEP_ALIVE, masked=True)):
            peer.send(silent)
            assert peer.exactly(len(silent)) == silent
        assert route.used_at == 0.0
        message = frame(BINARY, b"hello", masked=True)
        peer.send(message)
        assert peer.exactly(len(message)) == message
        assert route.used_at > 0.0


def test_stopping_keeps_sockets_for_a_while() -> None:
    with through(sockets, Limits(drain_seconds=0.1, tunnel_seconds=1.0)) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        here.stop()
        eventually(lambda: not here.accepts(), "nothing new is accepted")
        peer.send(b"still here")
        assert peer.exactly(10) == b"still here"
        with pytest.raises((ConnectionResetError, EOFError)):
            peer.exactly(1)


def test_a_socket_counts_among_the_connections_of_its_address() -> None:
    limits = Limits(connections_per_address=1, drain_seconds=0.1, tunnel_seconds=0.1)
    with through(sockets, limits) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        assert here.connect().answer()[0] == 503
        peer.close()

        def is_free() -> bool:
            other = here.connect()
            other.send(UPGRADE)
            return b" 101 " in other.head()

        eventually(is_free, "the place is free")
