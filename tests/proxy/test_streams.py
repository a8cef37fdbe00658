"""Bodies of any size pass in bounded memory, at the pace of whoever is slower."""

import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Request
from tests.proxy.world import GONE, Handler, Peer, ok, parsed, through, upstream
from tests.support import eventually

GB = 1 << 30
PIECE = b"\xa5" * (1 << 20)
MAX_GROWTH_MB = 12


@contextmanager
def process_through(handler: Handler) -> Iterator[tuple[int, int]]:
    """Port and process of a proxy in a process of its own."""
    with (
        upstream(handler) as there,
        subprocess.Popen(
            [sys.executable, "-m", "tests.proxy.host", there.address], stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


@contextmanager
def connected(port: int) -> Iterator[Peer]:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        yield Peer(sock)


def memory_mb(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


def take(peer: Peer, size: int) -> int:
    """Reads that much, and keeps nothing of it."""
    buffer = bytearray(1 << 20)
    got = len(peer.unread)
    peer.unread = b""
    while got < size:
        more = peer.sock.recv_into(buffer, min(len(buffer), size - got))
        assert more, f"closed after {got} of {size}"
        got += more
    return got


def give(peer: Peer, size: int) -> None:
    for _ in range(size // len(PIECE)):
        peer.sock.sendall(PIECE)


def both(peer: Peer) -> None:
    """Takes what is sent and says how much that was; sends as much as is asked for."""
    while True:
        head = peer.head()
        if head.startswith(b"POST /sized"):
            ok(peer, b"%d" % take(peer, 2 * GB))
        elif head.startswith(b"GET /sized"):
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * GB))
            give(peer, 2 * GB)
        elif head.startswith(b"GET /chunked"):
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(256):
                peer.sock.sendall(b"%x\r\n" % len(PIECE) + PIECE + b"\r\n")
            peer.send(b"0\r\n\r\n")
        else:
            ok(peer)


def test_two_gigabytes_each_way_in_flat_memory() -> None:
    with process_through(both) as (port, pid):
        with connected(port) as peer:
            peer.send(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
            assert peer.answer()[0] == 200  # whatever one request needs
        before = memory_mb(pid, "VmRSS")
        with connected(port) as peer:
            peer.send(b"POST /sized HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (2 * GB))
            give(peer, 2 * GB)
            assert peer.answer()[2] == b"%d" % (2 * GB)
        assert memory_mb(pid, "VmHWM") - before < MAX_GROWTH_MB
        with connected(port) as peer:
            peer.send(b"GET /sized HTTP/1.1\r\nHost: a\r\n\r\n")
            assert parsed(peer.head())[0] == 200
            assert take(peer, 2 * GB) == 2 * GB
        assert memory_mb(pid, "VmHWM") - before < MAX_GROWTH_MB


def test_chunks_in_flat_memory() -> None:
    with process_through(both) as (port, pid), connected(port) as peer:
        peer.send(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
        assert peer.answer()[0] == 200
        before = memory_mb(pid, "VmRSS")
        peer.send(b"GET /chunked HTTP/1.1\r\nHost: a\r\n\r\n")
        peer.head()
        assert take(peer, 256 * (len(PIECE) + len(b"100000\r\n\r\n")) + len(b"0\r\n\r\n"))
        assert memory_mb(pid, "VmHWM") - before < MAX_GROWTH_MB


@pytest.mark.parametrize("head", [b"Content-Length: 1073741824", b"Transfer-Encoding: chunked", b"X: until the end"])
def test_whoever_reads_slowly_is_waited_for(head: bytes) -> None:
    sent = 0

    def pour(peer: Peer) -> None:
        nonlocal sent
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % head)
        chunked = b"chunked" in head
        while True:
            peer.sock.sendall(b"%x\r\n%b\r\n" % (len(PIECE), PIECE) if chunked else PIECE)
            sent += len(PIECE)

    with through(pour) as (here, _):
        peer = here.connect()
        peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        stopped = _standstill(lambda: sent)
        assert stopped < 40 << 20  # what the buffers of two connections hold
        take(peer, 60 << 20)
        eventually(lambda: sent > stopped, "it goes on")


def test_an_upstream_that_reads_slowly_is_waited_for() -> None:
    go, sent = threading.Event(), 0

    def slow(peer: Peer) -> None:
        peer.head()
        go.wait(20)
        take(peer, 100 << 20)
        ok(peer, b"all")

    with through(slow) as (here, _):
        peer = here.connect()

        def pour() -> None:
            nonlocal sent
            peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (100 << 20))
            for _ in range(100):
                peer.sock.sendall(PIECE)
                sent += len(PIECE)

        pouring = threading.Thread(target=pour)
        pouring.start()
        assert _standstill(lambda: sent) < 40 << 20
        go.set()
        pouring.join(20)
        assert peer.answer()[2] == b"all"


def test_a_client_that_takes_nothing_is_given_up() -> None:
    left = threading.Event()

    def pour(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        try:
            while True:
                peer.sock.sendall(PIECE)
        finally:
            left.set()

    with through(pour, Limits(stalled_seconds=0.5, drain_seconds=0.1, tunnel_seconds=0.1)) as (here, _):
        peer = here.connect()
        peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert left.wait(10)


def _standstill(number: Callable[[], int]) -> int:
    """Where it stops growing; nothing shows that it will not go on, so time has to pass."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 0.5:
        if number() != last:
            last, since = number(), time.monotonic()
        time.sleep(0.02)
    return last


def test_a_connection_that_waits_keeps_no_large_head() -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            ok(peer)

    with through(serve) as (here, _):

        def ask() -> None:
            peer = here.connect()
            for _ in range(2):  # what was read, and what was sent on, is remembered for the next one
                peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Large: %b\r\n\r\n" % (b"x" * 60_000))
                assert peer.answer()[0] == 200

        ask()
        tracemalloc.start()
        try:
            for _ in range(50):
                ask()
            here.gate.requests.clear()
            assert tracemalloc.get_traced_memory()[0] < 1_500_000
        finally:
            tracemalloc.stop()


def test_whoever_takes_no_answers_is_asked_no_more() -> None:
    """Answers of the proxy's own wait for a slow client too: many small requests must not become much memory."""
    many = 40_000
    with through(ok) as (here, _):
        counted: list[Request] = []
        here.gate.requests = counted
        here.gate.choose = lambda _: GONE
        client = socket.socket()
        here.clients.append(peer := Peer(client))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.settimeout(60)  # for all that is sent, while it is read
        client.connect(("127.0.0.1", here.port))
        sending = threading.Thread(target=peer.send, args=(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * many,), daemon=True)
        sending.start()
        assert _standstill(lambda: len(counted)) < many / 2
        for _ in range(many):
            assert peer.answer()[0] == GONE.status
        assert len(counted) == many
        sending.join()
        peer.close()
