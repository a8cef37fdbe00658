"""Upstreams that take nothing, or say nothing: they are given up in time, as clients are."""

import threading
import time

import pytest

from codehub.web.proxy.limits import Limits
from tests.proxy.test_websockets import ACCEPT, UPGRADE
from tests.proxy.world import Peer, ok, through

SHORT = Limits(stalled_seconds=0.5, drain_seconds=0.1, tunnel_seconds=0.1)
PIECE = b"\xa5" * (1 << 20)


def pour(peer: Peer, left: threading.Event) -> None:
    """Sends until it is cut off, or nobody takes any more."""
    try:
        while True:
            peer.sock.sendall(PIECE)
    except OSError:
        left.set()


def test_an_upstream_that_takes_nothing_of_an_upload_is_given_up() -> None:
    end = threading.Event()

    def deaf(peer: Peer) -> None:
        peer.head()
        end.wait(20)

    with through(deaf, SHORT) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n")
        left = threading.Event()
        threading.Thread(target=pour, args=(peer, left), daemon=True).start()
        assert peer.answer()[0] == 504
        assert left.wait(10), "and the connection ends"
        end.set()
        assert not here.gate.only.open


def test_an_upstream_that_takes_nothing_of_a_websocket_is_given_up() -> None:
    end = threading.Event()

    def deaf(peer: Peer) -> None:
        peer.head()
        peer.send(ACCEPT)
        end.wait(20)

    with through(deaf, SHORT) as (here, _):
        peer = here.connect()
        peer.send(UPGRADE)
        peer.head()
        left = threading.Event()
        threading.Thread(target=pour, args=(peer, left), daemon=True).start()
        assert left.wait(10)
        end.set()


@pytest.mark.parametrize("request_", [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
])  # fmt: skip
def test_an_upstream_that_never_answers_is_given_up(request_: bytes) -> None:
    left = threading.Event()

    def silent(peer: Peer) -> None:
        try:
            peer.head()
            peer.rest()
        finally:
            left.set()

    limits = Limits(answer_seconds=0.5, drain_seconds=0.1, tunnel_seconds=0.1)
    with through(silent, limits) as (here, _):
        peer = here.connect()
        peer.send(request_)
        assert peer.answer()[0] == 504
        assert left.wait(10)
        here.gate.choose = lambda _: here.gate.after_failure
        peer.send(request_.replace(b"POST", b"PUT"))
        assert peer.answer()[0] == 502, "whoever asked goes on with the same connection"


def test_a_body_may_take_longer_than_an_answer_and_a_stream_may_be_silent() -> None:
    def slow(peer: Peer) -> None:
        while True:
            head = peer.head()
            if head.startswith(b"POST"):
                peer.exactly(2)
                ok(peer)
            else:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
                time.sleep(2.5)  # longer than an answer may take to begin: it has
                peer.send(b"cd")

    limits = Limits(answer_seconds=0.5, drain_seconds=0.1, tunnel_seconds=0.1)
    with through(slow, limits) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh")
        time.sleep(2.5)  # longer than there is for an answer: that time begins with the body's end
        peer.send(b"i")
        assert peer.answer()[2] == b"ok"
        peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert peer.answer()[2] == b"abcd"
