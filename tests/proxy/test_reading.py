"""Other readers of HTTP agree with ours about everything that is sent on, however odd what came in was."""

from collections.abc import Sequence
from contextlib import suppress

import h11
import httptools
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.web.proxy.framing import Chunked
from codehub.web.proxy.headers import request_fields
from codehub.web.proxy.heads import BadHead, read_request, read_response
from codehub.web.proxy.ports import Route
from codehub.web.proxy.requests import request_of
from tests.proxy.world import WORKSPACE, Peer, through

ODD = rb"\r|\n|\r\n|\0| |\t|\x0b|\x7f|\xff|:|,|;|0|_|\r\n |\n\n".decode("unicode-escape").encode("latin-1").split(b"|")
NAMES = (
    b"Host|Content-Length|Transfer-Encoding|Connection|Upgrade|Expect|X|Cookie|TE|content_length|Transfer-Encoding "
    b"| Content-Length|Content-Length\t|X-Forwarded-For|Keep-Alive"
).split(b"|")
METHODS = (b"GET", b"POST", b"HEAD")
VALUES = (
    b'a|5|0|05|+5|-5|5, 5|0x5|chunked|Chunked|chunked, chunked|gzip|identity|close|keep-alive|upgrade|websocket|"x"|a b'
    b"|content-length|transfer-encoding, host||100-continue|a:80|[::1]:80"
).split(b"|")
REQUEST_LINES = [b"GET / HTTP/1.1"] * 6 + (
    b"POST /a?b HTTP/1.1|GET / HTTP/1.0|HEAD / HTTP/1.1|GET http://a/x HTTP/1.1|OPTIONS * HTTP/1.1|GET  / HTTP/1.1"
    b"|GET /\tHTTP/1.1|get / HTTP/1.1|GET / HTTP/1.1 |GET / HTTP/2|CONNECT a:1 HTTP/1.1"
).split(b"|")

lines = st.tuples(st.sampled_from(NAMES), st.sampled_from([b": ", b":", b" : ", b":\t"]), st.sampled_from(VALUES))


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    fields = [b"".join(line) for line in draw(st.lists(lines, max_size=5))]
    if draw(st.booleans()):
        fields.insert(0, b"Host: a")
    head = b"\r\n".join([draw(st.sampled_from(REQUEST_LINES)), *fields])
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(head)))
        head = head[:at] + draw(st.sampled_from(ODD)) + head[at + draw(st.integers(0, 1)) :]
    return head


class _Seen:
    """What llhttp makes of a request."""

    def __init__(self, data: bytes) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.url = b""
        self.heads = 0
        self.parser = httptools.HttpRequestParser(self)
        with suppress(httptools.HttpParserUpgrade):
            self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.heads += 1


@settings(max_examples=1000)
@given(heads())
def test_what_is_sent_on_is_one_request_to_every_reader(raw: bytes) -> None:
    if b"\r\n\r\n" in raw:
        return  # that is where the head ends
    try:
        head = read_request(raw)
    except BadHead:
        return
    request = request_of(head, "10.0.0.1", b"here", is_tls=False, trusted=None)
    for route in (Route("w", "a:1", WORKSPACE), Route("api", "a:1")):
        sent = b"%b %b HTTP/1.1\r\n%b" % (head.method, head.target, request_fields(head.fields, request, route))
        assert sent.count(b"\r\n\r\n") == 1
        reader = h11.Connection(h11.SERVER)
        reader.receive_data(sent)
        read = reader.next_event()
        assert isinstance(read, h11.Request)
        assert (read.method, read.target) == (head.method, head.target)
        said = [
            (name, value) for name, value in read.headers if name in (b"content-length", b"transfer-encoding", b"host")
        ]
        framing = []
        if head.fields.is_chunked:
            framing = [(b"transfer-encoding", b"chunked")]
        elif head.fields.length is not None:
            framing = [(b"content-length", b"%d" % head.fields.length)]
        assert said == [(b"host", request.host), *framing]
        if head.method not in METHODS:
            continue  # llhttp knows the usual methods only
        seen = _Seen(sent)
        assert (seen.heads, seen.url) == (1, head.target)
        assert [(name, value.rstrip()) for name, value in seen.fields] == [(n, v.rstrip()) for n, v in read.headers]


@settings(max_examples=700)
@given(heads())
def test_what_another_strict_reader_takes_for_a_body_we_do_too(raw: bytes) -> None:
    """Of what both of us accept as it came in."""
    reader = h11.Connection(h11.SERVER)
    try:
        head = read_request(raw)
        reader.receive_data(raw + b"\r\n\r\n")
        read = reader.next_event()
    except (BadHead, h11.RemoteProtocolError):
        return
    assert isinstance(read, h11.Request)
    names = dict(read.headers)
    assert (b"transfer-encoding" in names) == head.fields.is_chunked
    length = names.get(b"content-length")
    assert (None if length is None else int(length)) == head.fields.length


pieces = st.one_of(
    st.builds(lambda content: b"%x\r\n%b\r\n" % (len(content), content), st.binary(min_size=1, max_size=40)),
    st.builds(lambda content: b"%X;ext=1\r\n%b\r\n" % (len(content), content), st.binary(min_size=1, max_size=40)),
    st.sampled_from(
        [b"5\r\nhel", b"5\nhello\r\n", b"\r\n", b"5 \r\nhello\r\n", b"g\r\n", b"-1\r\n", b"00\r\n\r\n", b"0\r\n\r\n"]
    ),
)
ends = st.sampled_from([b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"000\r\nA: b\r\nC: d\r\n\r\n", b"0\r\nbad\r\n\r\n", b""])


def _fed(body: Chunked, data: bytes, cuts: Sequence[int]) -> bytes | None:
    """All that is sent on; None when it is refused."""
    out, number = b"", 0
    try:
        while data and not body.done:
            size = cuts[number % len(cuts)]
            out += body.feed(data[:size])
            data, number = data[size:], number + 1
    except BadHead:
        return None
    body.rest += data
    return out


@settings(max_examples=700)
@given(st.lists(pieces, max_size=5), ends, st.binary(max_size=10), st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_chunks_are_read_alike_however_they_are_cut(
    parts: list[bytes], end: bytes, after: bytes, cuts: list[int]
) -> None:
    stream = b"".join(parts) + end + after
    whole, cut = Chunked(), Chunked()
    sent = _fed(whole, stream, [len(stream) + 1])
    assert (_fed(cut, stream, cuts) is None) == (sent is None)
    if sent is None:
        return
    assert (whole.done, whole.rest) == (cut.done, cut.rest)
    if not whole.done:
        return
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
    content = b""
    while not isinstance(event := reader.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            content += event.data
        assert event is not h11.NEED_DATA
    assert reader.trailing_data == (b"", False)
    payload = Chunked(in_chunks=False)
    assert _fed(payload, stream, cuts) == content


@given(st.binary(max_size=200) | heads())
def test_anything_is_read_or_refused_never_worse(raw: bytes) -> None:
    for read in (read_request, read_response):
        try:
            read(raw)
        except BadHead:
            continue


def test_streams_of_odd_requests_reach_the_upstream_as_whole_requests() -> None:
    """On real sockets: whatever an upstream gets, another reader takes for requests and nothing else."""
    seen: list[bytes] = []

    def read(peer: Peer) -> None:
        reader = h11.Connection(h11.SERVER)
        while data := peer.sock.recv(65536):
            reader.receive_data(data)
            while (event := reader.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
                if isinstance(event, h11.Request):
                    seen.append(event.target)
                if isinstance(event, h11.EndOfMessage):
                    reader.send(h11.Response(status_code=200, headers=[("Content-Length", "2")]))
                    reader.send(h11.Data(data=b"ok"))
                    reader.send(h11.EndOfMessage())
                    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    reader.start_next_cycle()

    good = b"GET /good HTTP/1.1\r\nHost: a\r\n\r\n"
    with through(read) as (here, there):

        @settings(max_examples=100)
        @given(st.lists(heads(), max_size=3), st.sampled_from([b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n"]))
        def run(raws: list[bytes], body: bytes) -> None:
            peer = here.connect()
            peer.send(b"".join(raw + b"\r\n\r\n" + body for raw in raws) + good)
            peer.end_sending()
            with suppress(ConnectionResetError):  # a body that never came
                peer.rest()
            peer.close()

        run()
        assert there.failures == []
    assert len(seen) > 10
    assert b"/good" in seen
