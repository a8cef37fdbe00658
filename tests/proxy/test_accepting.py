"""How many may connect: counted over all sockets, per home, and from the first byte of a TLS handshake on."""

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from codehub.web.forwarded import address, networks
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.places import origin_of
from codehub.web.proxy.ports import Route
from codehub.web.proxy.tls import Certificate
from codehub.web.server import listen
from tests.proxy.test_tls import connect, make
from tests.proxy.world import WORKSPACE, PlainGate, echo_heads, proxy, upstream

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
SOON = Limits(drain_seconds=0.1, tunnel_seconds=0.1)


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("192.0.2.1", ("192.0.2.1",)),
        ("10.1.2.3", ()),  # trusted
        ("2001:db8:1:2ab:3::4", ("20010db8000102ab/64", "20010db8000102/56", "20010db80001/48")),
        ("2001:db8:1:2ff:ffff::5", ("20010db8000102ff/64", "20010db8000102/56", "20010db80001/48")),
        ("2001:db8:1:3ab::4", ("20010db8000103ab/64", "20010db8000103/56", "20010db80001/48")),
        ("fd00::7", ()),
        ("::ffff:192.0.2.1", ("192.0.2.1",)),  # on a socket that takes both
        ("::ffff:10.1.2.3", ()),
        ("fe80::1%eth0", ("fe80000000000000/64", "fe800000000000/56", "fe8000000000/48")),
    ],
)
def test_one_home_is_counted_as_one(peer: str, counted: tuple[str, ...]) -> None:
    assert origin_of(address(peer) or "", networks(["10.0.0.0/8", "fd00::/8"])).counted == counted


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
def test_handshakes_count_and_the_oldest_of_them_makes_room(tmp_path: Path, limits: Limits) -> None:
    chain, key = make(tmp_path, "hub.example")
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, limits, tls=Certificate(chain, key)) as here:
            silent = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(2)]
            first = connect(here, chain, "hub.example")
            assert is_turned_away(silent[0])
            first.send(b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n")
            assert first.answer()[0] == 200
            second = connect(here, chain, "hub.example")
            assert is_turned_away(silent[1])
            second.send(b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n")
            assert second.answer()[0] == 200
            with socket.create_connection(("127.0.0.1", here.port)) as third:
                assert is_turned_away(third), "who works is not shown out for who only comes"
            for each in (*silent, first.sock, second.sock):
                each.close()


def test_a_place_is_given_up_before_a_handshake_begins(tmp_path: Path) -> None:
    """Who comes in the same moment at another socket may need it before anything was said."""
    chain, key = make(tmp_path, "hub.example")
    beside = listen("127.0.0.1", 0)
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, replace(SOON, connections=1), tls=Certificate(chain, key), beside=beside) as here:
            for _ in range(5):
                have_come = threading.Event()
                here.call(have_come.wait)
                two = [socket.create_connection(("127.0.0.1", port)) for port in (here.port, beside.getsockname()[1])]
                have_come.set()
                for each in two:
                    each.shutdown(socket.SHUT_WR)
                    assert is_turned_away(each)
                    each.close()
            first = connect(here, chain, "hub.example")
            first.send(b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n")
            assert first.answer()[0] == 200


def test_a_handshake_that_is_never_ended_is_cut_off(tmp_path: Path) -> None:
    chain, key = make(tmp_path, "hub.example")
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with (
            proxy(gate, replace(SOON, head_seconds=0.3), tls=Certificate(chain, key)) as here,
            socket.create_connection(("127.0.0.1", here.port)) as silent,
        ):
            assert is_turned_away(silent)
