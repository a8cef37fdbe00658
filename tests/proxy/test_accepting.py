"""How many may connect: counted over all sockets, per home, and from the first byte of a TLS handshake on."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from codehub.web.forwarded import address, networks
from codehub.web.proxy.engine import counted_as
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Route
from codehub.web.proxy.tls import Certificate
from codehub.web.server import listen
from tests.proxy.test_tls import connect, make
from tests.proxy.world import WORKSPACE, PlainGate, echo_heads, proxy, upstream
from tests.support import eventually

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
SOON = Limits(drain_seconds=0.1, tunnel_seconds=0.1)


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("10.1.2.3", None),  # trusted
        ("2001:db8:1:2:3::4", "20010db800010002/64"),
        ("2001:db8:1:2:ffff::5", "20010db800010002/64"),
        ("2001:db8:1:3::4", "20010db800010003/64"),
        ("fd00::7", None),
        ("::ffff:192.0.2.1", "192.0.2.1"),  # on a socket that takes both
        ("::ffff:10.1.2.3", None),
        ("fe80::1%eth0", "fe80000000000000/64"),
    ],
)
def test_one_home_is_counted_as_one(peer: str, counted: str | None) -> None:
    assert counted_as(address(peer) or "", networks(["10.0.0.0/8", "fd00::/8"])) == counted


def test_two_sockets_share_one_limit() -> None:
    beside = listen("127.0.0.1", 0)
    port = beside.getsockname()[1]
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, replace(SOON, connections_per_address=2), beside=beside) as here:
            first = here.connect()
            first.send(GET)
            assert first.answer()[0] == 200
            with socket.create_connection(("127.0.0.1", port)) as second:
                second.sendall(GET)
                assert second.recv(65536).startswith(b"HTTP/1.1 200 ")
                assert here.connect().answer()[0] == 503
                with socket.create_connection(("127.0.0.1", port)) as third:
                    assert third.recv(65536).startswith(b"HTTP/1.1 503 ")


def is_turned_away(sock: socket.socket) -> bool:
    """Closed without a word: there is no TLS yet to say it in."""
    sock.settimeout(10)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("limits", [replace(SOON, connections_per_address=2), replace(SOON, connections=2)])
def test_handshakes_count(tmp_path: Path, limits: Limits) -> None:
    chain, key = make(tmp_path, "hub.example")
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, limits, tls=Certificate(chain, key)) as here:
            silent = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(2)]
            with socket.create_connection(("127.0.0.1", here.port)) as third:
                assert is_turned_away(third)
            silent.pop().close()

            def is_let_in() -> bool:
                try:
                    peer = connect(here, chain, "hub.example")
                except OSError:
                    return False
                peer.send(b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n")
                answered = peer.answer()[0] == 200
                with socket.create_connection(("127.0.0.1", here.port)) as fourth:
                    assert is_turned_away(fourth), "one that is open and one that begins are two"
                peer.close()
                return answered

            eventually(is_let_in, "the place is free")
            eventually(is_let_in, "it is free again")
            silent.pop().close()


def test_a_handshake_that_is_never_ended_is_cut_off(tmp_path: Path) -> None:
    chain, key = make(tmp_path, "hub.example")
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with (
            proxy(gate, replace(SOON, head_seconds=0.3), tls=Certificate(chain, key)) as here,
            socket.create_connection(("127.0.0.1", here.port)) as silent,
        ):
            assert is_turned_away(silent)
