"""Responses arrive as they were sent, or visibly not at all."""

import threading

import pytest

from codehub.web.proxy.ports import Route
from tests.proxy.world import WORKSPACE, Handler, Peer, echo_heads, ok, parsed, through

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def says(response: bytes, *, close: bool = False) -> Handler:
    """An upstream that always answers the same."""

    def handler(peer: Peer) -> None:
        while True:
            peer.head()
            peer.send(response)
            if close:
                return

    return handler


def test_chunks_and_trailers_pass_and_extensions_do_not() -> None:
    chunks = b"5;a=b\r\nhello\r\n6 ; x\r\n world\r\n0\r\nX-Sum: 11\r\nContent-Length: 3\r\nSet-Cookie: a=b\r\n\r\n"
    with through(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + chunks)) as (
        here,
        there,
    ):
        peer = here.connect()
        for _ in range(2):
            peer.send(GET)
            assert parsed(peer.head())[1] == {b"transfer-encoding": b"chunked", b"trailer": b"X-Sum"}
            assert peer.until(b"\r\n\r\n") == b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-sum: 11\r\n\r\n"
        assert len(there.connections) == 1


def test_chunks_may_be_cut_anywhere() -> None:
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"

    def slowly(peer: Peer) -> None:
        while True:
            peer.head()
            for byte in response:
                peer.send(bytes([byte]))

    with through(slowly) as (here, _):
        peer = here.connect()
        for _ in range(2):
            peer.send(GET)
            peer.head()
            got = peer.until(b"x: y\r\n\r\n")
            content, rest = b"", got
            while not rest.startswith(b"0\r\n"):
                size, _, rest = rest.partition(b"\r\n")
                content, rest = content + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
            assert content == b"0123456789abc"


@pytest.mark.parametrize(
    ("request_line", "response", "fields"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", {b"content-length": b"1000"}),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", {b"transfer-encoding": b"chunked"}),
        (b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", {}),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", {b"etag": b"x"}),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", {b"content-length": b"5"}),
        (b"GET", b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", {b"content-length": b"0"}),
    ],
)  # fmt: skip
def test_answers_without_a_body(request_line: bytes, response: bytes, fields: dict[bytes, bytes]) -> None:
    with through(says(response)) as (here, there):
        peer = here.connect()
        for _ in range(3):
            peer.send(request_line + GET[3:])
            status, got = parsed(peer.head())
            assert got == fields
            assert b" %d " % status in response
        assert len(there.connections) == 1


def test_a_range_passes() -> None:
    part = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\n234"
    with through(says(part)) as (here, _):
        status, fields, body = here.ask(GET[:-2] + b"Range: bytes=2-4\r\n\r\n")
        assert (status, fields[b"content-range"], body) == (206, b"bytes 2-4/9", b"234")


def test_continue_and_hints_pass_before_the_answer() -> None:
    def patient(peer: Peer) -> None:
        assert b"expect: 100-continue\r\n" in peer.head()
        peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        ok(peer, peer.exactly(5))

    with through(patient) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert peer.head() == b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
        assert peer.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.send(b"hello")
        assert peer.answer()[2] == b"hello"


def test_a_refused_expectation_ends_the_connection_without_its_body() -> None:
    with through(says(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert peer.answer()[0] == 413
        assert peer.rest() == b""


def test_an_answer_that_ends_with_its_connection_becomes_chunks() -> None:
    with through(says(b"HTTP/1.1 200 OK\r\n\r\nhello", close=True)) as (here, _):
        peer = here.connect()
        for _ in range(2):
            peer.send(GET)
            assert parsed(peer.head())[1] == {b"transfer-encoding": b"chunked"}
            assert peer.until(b"0\r\n\r\n") == b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "response",
    [b"HTTP/1.1 200 OK\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
)
def test_http_1_0_gets_no_chunks(response: bytes) -> None:
    with through(says(response, close=True)) as (here, _):
        peer = here.connect()
        peer.send(b"GET / HTTP/1.0\r\n\r\n")
        assert parsed(peer.head())[1] == {b"connection": b"close"}
        assert peer.rest() == b"hello"


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_what_is_no_response_is_a_502(response: bytes) -> None:
    with through(says(response, close=True)) as (here, _):
        peer = here.connect()
        for _ in range(2):
            peer.send(GET)
            status, _, body = peer.answer()
            assert (status, b"bad_answer" in body) == (502, True)


@pytest.mark.parametrize(
    "begun",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n",
    ],
)
def test_an_answer_that_breaks_off_cuts_the_client_off(begun: bytes) -> None:
    with through(says(begun, close=True)) as (here, _):
        peer = here.connect()
        peer.send(GET)
        with pytest.raises(ConnectionResetError):
            peer.rest()
        assert not peer.unread.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_without_a_length_that_breaks_off_does_not_look_whole(version: bytes) -> None:
    go = threading.Event()

    def reset(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        go.wait(10)
        peer.reset()

    with through(reset) as (here, _):
        peer = here.connect()
        peer.send(b"GET / HTTP/%b\r\nHost: a\r\n\r\n" % version)
        peer.until(b"hello")
        go.set()
        with pytest.raises(ConnectionResetError):
            peer.rest()


def test_nothing_at_all_is_a_502() -> None:
    def silent(peer: Peer) -> None:
        peer.head()

    with through(silent) as (here, _):
        assert here.ask(GET)[0] == 502


def test_surplus_after_an_answer_never_answers_the_next_request() -> None:
    with through(
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    ) as (
        here,
        there,
    ):
        peer = here.connect()
        for _ in range(3):
            peer.send(GET)
            assert peer.answer()[2] == b"ok"
        assert len(there.connections) == 3


def test_connection_close_is_heeded() -> None:
    with through(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")) as (here, there):
        peer = here.connect()
        for _ in range(3):
            peer.send(GET)
            assert peer.answer()[1] == {b"content-length": b"2"}
        assert len(there.connections) == 3
        peer.send(GET[:-2] + b"Connection: close\r\n\r\n")
        assert peer.answer()[1][b"connection"] == b"close"
        assert peer.rest() == b""


def test_heads_that_repeat_are_told_apart() -> None:
    numbers = iter(range(100))

    def count(peer: Peer) -> None:
        while True:
            peer.head()
            peer.send(b"HTTP/1.1 200 OK\r\nX: %d\r\nContent-Length: 0\r\n\r\n" % (next(numbers) // 3))

    with through(count) as (here, _):
        peer = here.connect()
        got = []
        for _ in range(9):
            peer.send(GET)
            got.append(int(peer.answer()[1][b"x"]))
        assert got == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_the_api_gets_everything_but_upgrades() -> None:
    with through(echo_heads, workspace=False) as (here, _):
        _, _, head = here.ask(
            GET[:-2]
            + b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nCookie: codehub_session=a\r\n"
            b"Authorization: Bearer b\r\n\r\n"
        )
        assert b"cookie: codehub_session=a\r\nauthorization: Bearer b\r\n" in head
        assert b"pgrade" not in head
        assert b"websocket" not in head


def test_a_redirect_is_told_to_each_by_the_name_they_came_by() -> None:
    """It is remembered for whom it is always the same; others may have come by the same connection before."""
    redirect = says(b"HTTP/1.1 302 Found\r\nLocation: http://one/login\r\nContent-Length: 0\r\n\r\n")
    with through(redirect) as (here, there):
        own = here.gate.only
        below = Route(own.key, own.address, WORKSPACE, strip=b"/w/7", cookie_path=b"/w/7/")
        here.gate.choose = lambda request: below if request.target.startswith(b"/w/7/") else own

        def location(target: bytes, host: bytes) -> bytes:
            return here.ask(b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, host))[1][b"location"]

        for _ in range(2):
            assert location(b"/", b"own") == b"http://one/login"
        for _ in range(2):
            assert location(b"/w/7/", b"one") == b"http://one/w/7/login"
        assert location(b"/w/7/", b"two") == b"http://one/login"
        assert len(there.connections) == 1
