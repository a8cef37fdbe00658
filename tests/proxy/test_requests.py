"""One strict reading of every request: what two readers could disagree about never gets through."""

from collections.abc import Iterator

import pytest

from codehub.web.proxy.limits import Limits
from tests.proxy.world import Peer, Proxy, Upstream, echo_heads, ok, parsed, through
from tests.support import eventually

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
World = tuple[Proxy, Upstream]

REFUSED = {
    "length and coding": (400, POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "coding and length": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    "the same length twice": (400, POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    "a list of lengths": (400, POST + b"Content-Length: 5, 5\r\n\r\nhello"),
    "a signed length": (400, POST + b"Content-Length: +5\r\n\r\nhello"),
    "a negative length": (400, POST + b"Content-Length: -1\r\n\r\n"),
    "a hexadecimal length": (400, POST + b"Content-Length: 0x5\r\n\r\nhello"),
    "an empty length": (400, POST + b"Content-Length:\r\n\r\n"),
    "a length with an underscore": (400, POST + b"Content-Length: 1_0\r\n\r\nhello"),
    "a huge length": (400, POST + b"Content-Length: 99999999999999999999\r\n\r\n"),
    "two codings": (501, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunked twice": (501, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "identity": (501, POST + b"Transfer-Encoding: identity\r\n\r\n"),
    "xchunked": (501, POST + b"Transfer-Encoding: xchunked\r\n\r\n"),
    "chunked with a vertical tab": (400, POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n"),
    "a coding in 1.0": (400, b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "bare LF": (400, b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
    "bare LF after the request line": (400, b"GET / HTTP/1.1\nHost: a\r\n\r\n"),
    "bare CR": (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n"),
    "a folded line": (400, GET + b"X: y\r\n z\r\n\r\n"),
    "a folded first line": (400, b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    "a blank before the colon": (400, GET + b"Content-Length : 5\r\n\r\nhello"),
    "a tab before the colon": (400, GET + b"X\t: y\r\n\r\n"),
    "no colon": (400, GET + b"nonsense\r\n\r\n"),
    "no colon in a usual name": (400, GET + b"Content-Length\r\n\r\n"),
    "no name": (400, GET + b": y\r\n\r\n"),
    "NUL in a value": (400, GET + b"X: a\x00b\r\n\r\n"),
    "NUL in a name": (400, GET + b"X\x00: a\r\n\r\n"),
    "escape in a value": (400, GET + b"X: \x1b[0m\r\n\r\n"),
    "a letter of another alphabet in a name": (400, GET + b"X\xe9: y\r\n\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "the same host twice": (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    "an empty host": (400, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    "a host with a path": (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "a host with a user": (400, b"GET / HTTP/1.1\r\nHost: me@a\r\n\r\n"),
    "a list of hosts": (400, b"GET / HTTP/1.1\r\nHost: a.localhost,b\r\n\r\n"),
    "a host with an escape": (400, b"GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n"),
    "a host with a semicolon": (400, b"GET / HTTP/1.1\r\nHost: a;b\r\n\r\n"),
    "a port that is none": (400, b"GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n"),
    "an open bracket": (400, b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
    "two credentials": (400, GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    "the same credentials twice": (400, GET + b"Authorization: Bearer a\r\nauthorization: Bearer a\r\n\r\n"),
    "another host in the target": (400, b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    "another scheme": (400, b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    "no path": (400, b"GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a star": (400, b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a fragment": (400, b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "CONNECT": (400, b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    "CONNECT of a path": (405, b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "TRACE": (405, b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "another expectation": (417, GET + b"Expect: miracles\r\n\r\n"),
    "two blanks": (400, b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a blank in the target": (400, b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a tab in the request line": (400, b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    "bytes beyond ASCII in the target": (400, b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.2": (400, b"GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "lower-case http": (400, b"GET / http/1.1\r\nHost: a\r\n\r\n"),
    "an empty line first": (400, b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    "too many fields": (431, GET + b"X: y\r\n" * 200 + b"\r\n"),
    "a large head": (431, GET + b"X: " + b"y" * 70_000 + b"\r\n\r\n"),
    "a head without an end": (431, GET + b"X: " + b"y" * 70_000),
    "a long target": (414, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a target without an end": (414, b"GET /" + b"a" * 20_000),
}  # fmt: skip


@pytest.fixture(scope="module")
def heads() -> Iterator[World]:
    with through(echo_heads) as made:
        yield made


@pytest.mark.parametrize("case", REFUSED)
def test_ambiguous_requests_are_refused_and_nothing_gets_through(heads: World, case: str) -> None:
    here, there = heads
    before = len(there.connections)
    status, request = REFUSED[case]
    peer = here.connect()
    # What would be a second request if the first were read in another way.
    peer.send(request + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
    got, fields, body = peer.answer()
    assert got == status, body
    assert b'"error"' in body
    if status in (405, 417):  # it is known where the next request begins
        assert peer.answer()[2].startswith(b"GET /smuggled ")
    else:
        assert fields[b"connection"] == b"close"
        assert peer.rest() == b""
        assert len(there.connections) == before
    peer.close()


CHUNKS_REFUSED = {
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "not hexadecimal": b"5g\r\nhello\r\n0\r\n\r\n",
    "a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a blank first": b" 5\r\nhello\r\n0\r\n\r\n",
    "bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "bare LF after the content": b"5\r\nhello\n0\r\n\r\n",
    "too long": b"4\r\nhello\r\n0\r\n\r\n",
    "no end of line after the content": b"4\r\nhellXX0\r\n\r\n",
    "a huge size": b"ffffffffffffffff1\r\nhello\r\n",
    "bare LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "bare CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "an endless size": b"5;" + b"a" * 9000,
    "a folded trailer": b"0\r\nX: y\r\n z\r\n\r\n",
    "a bare LF in a trailer": b"0\r\nX: y\nZ: z\r\n\r\n",
    "trailers that are too large together": b"0\r\n" + b"X: %b\r\n" % (b"y" * 1000) * 17 + b"\r\n",
}


@pytest.mark.parametrize("case", CHUNKS_REFUSED)
def test_chunks_that_could_be_read_in_two_ways_end_the_connection(case: str) -> None:
    seen: list[bytes] = []

    def record(peer: Peer) -> None:
        seen.append(peer.head())
        seen.append(peer.rest())

    with through(record) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS_REFUSED[case])
        status, fields = parsed(peer.head())
        assert status in (400, 431)
        assert fields[b"connection"] == b"close"
        peer.close()
    assert b"0\r\n\r\n" not in b"".join(seen[1:])  # never a whole body


def test_a_target_with_a_host_becomes_a_path() -> None:
    with through(echo_heads) as (here, _):
        _, _, head = here.ask(b"GET http://A:80?x=1 HTTP/1.1\r\nHost: a:80\r\n\r\n")
        assert head.startswith(b"GET /?x=1 HTTP/1.1\r\nhost: a:80\r\n")


def test_http_1_0_is_answered_and_closed() -> None:
    with through(echo_heads) as (here, _):
        peer = here.connect()
        peer.send(b"GET / HTTP/1.0\r\n\r\n")
        status, fields, head = peer.answer()
        assert status == 200
        assert fields[b"connection"] == b"close"
        assert head.startswith(b"GET / HTTP/1.1\r\nhost: 127.0.0.1:")
        assert peer.rest() == b""


def test_a_head_may_come_byte_by_byte() -> None:
    with through(echo_heads) as (here, _):
        peer = here.connect()
        for byte in b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n":
            peer.send(bytes([byte]))
        assert peer.answer()[2].startswith(b"GET /slow ")


def test_pipelined_requests_are_answered_in_their_order_one_at_a_time() -> None:
    with through(echo_heads) as (here, there):
        peer = here.connect()
        peer.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(500)))
        for number in range(500):
            assert peer.answer()[2].startswith(b"GET /%d " % number)
        assert len(there.connections) == 1


def test_pipelined_requests_with_bodies() -> None:
    def both(peer: Peer) -> None:
        while True:
            head = peer.head()
            body = peer.exactly(5) if b"content-length" in head else peer.until(b"0\r\n\r\n")
            ok(peer, body)

    with through(both) as (here, _):
        peer = here.connect()
        sized = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
        chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        peer.send(sized + chunked + sized)
        assert [peer.answer()[2] for _ in range(3)] == [b"hello", b"3\r\nabc\r\n0\r\n\r\n", b"hello"]


def test_a_refused_method_leaves_the_connection_usable() -> None:
    with through(echo_heads) as (here, _):
        peer = here.connect()
        peer.send(b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n" + GET + b"\r\n")
        assert peer.answer()[0] == 405
        assert peer.answer()[0] == 200


def test_heads_of_one_connection_are_each_read_for_themselves() -> None:
    """The same fields are not read twice; other ones are."""
    with through(echo_heads) as (here, _):
        peer = here.connect()
        for value in (b"1", b"1", b"2", b"1"):
            peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: %b\r\n\r\n" % value)
            assert b"x: %b\r\n" % value in peer.answer()[2]


def test_slow_heads_and_idle_connections_are_closed() -> None:
    limits = Limits(head_seconds=0.5, idle_seconds=0.5, drain_seconds=0.1, tunnel_seconds=0.1)
    with through(echo_heads, limits) as (here, _):
        silent, slow, idle = here.connect(), here.connect(), here.connect()
        slow.send(b"GET / HT")
        idle.send(GET + b"\r\n")
        assert idle.answer()[0] == 200
        assert silent.rest() == slow.rest() == idle.rest() == b""


def test_a_body_that_does_not_come_is_given_up() -> None:
    limits = Limits(body_seconds=0.5, drain_seconds=0.1, tunnel_seconds=0.1)
    left: list[bool] = []

    def wait(peer: Peer) -> None:
        peer.head()
        peer.exactly(3)
        try:
            peer.exactly(1)
        except (EOFError, OSError):
            left.append(True)
            raise

    with through(wait, limits) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")
        with pytest.raises(ConnectionResetError):
            peer.rest()
        eventually(lambda: left == [True], "the upstream is left too")


def test_there_are_only_so_many_connections_per_address() -> None:
    limits = Limits(connections_per_address=3, drain_seconds=0.1, tunnel_seconds=0.1)
    with through(echo_heads, limits) as (here, _):
        first = [here.connect() for _ in range(3)]
        for peer in first:
            peer.send(GET + b"\r\n")
            assert peer.answer()[0] == 200
        assert here.connect().answer()[0] == 503
        first[0].close()
        first[1].send(b"GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
        assert first[1].answer()[0] == 200
        assert here.ask(GET + b"\r\n")[0] == 200
