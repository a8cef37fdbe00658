"""The short way of a head that differs from the last in its path alone: nothing comes of it that would not anyway."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.web.proxy.again import Again, may_come_again
from codehub.web.proxy.headers import request_fields, sent_target
from codehub.web.proxy.heads import BadHead, RequestHead, read_request
from codehub.web.proxy.ports import Refusal, Request, Route
from codehub.web.proxy.requests import request_of
from tests.proxy.world import WORKSPACE, Peer, Proxy, ok, through

FIELDS = b"Host: hub\r\nCookie: a=1\r\nAccept: */*"
ROUTES = [Route("k", "a:1", WORKSPACE), Route("k", "a:1", WORKSPACE, strip=b"/w/7", cookie_path=b"/w/7/")]


def read(data: bytes) -> tuple[RequestHead, Request]:
    head = read_request(data.removesuffix(b"\r\n\r\n"))
    return head, request_of(head, "10.0.0.9", b"", is_tls=False, trusted=None)


def remembered(route: Route, method: bytes = b"GET", fields: bytes = FIELDS) -> Again | None:
    head, request = read(b"%b %b/first HTTP/1.1\r\n%b\r\n\r\n" % (method, route.strip, fields))
    if not may_come_again(head, request, route):
        return None
    return Again(head, request, route, fields, request_fields(head.fields, request, route))


_line = st.one_of(
    st.binary(max_size=30),
    st.text("/w7.codehub?#%a \t\r\n", max_size=30).map(str.encode),
    st.sampled_from([b"/w/7/", b"/w/7", b"/w/7/.codehub/enter", b"/.codehub/x", b"/w/7/#", b"/w/7/a b", b"/w/8/"]),
)


@given(route=st.sampled_from(ROUTES), target=_line, method=st.sampled_from([b"GET", b"HEAD", b"POST"]), more=_line)
@settings(max_examples=3000)
def test_what_it_takes_it_takes_as_the_long_way_does(route: Route, target: bytes, method: bytes, more: bytes) -> None:
    again = remembered(route)
    assert again is not None
    for data in (
        b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (method, target, FIELDS),
        b"%b %b/%b HTTP/1.1\r\n%b\r\n\r\n" % (method, route.strip, target, FIELDS),
        b"%b %b/%b HTTP/1.1\r\n%b\r\n\r\n%b" % (method, route.strip, target, FIELDS, more),
        b"%b %b/%b%b HTTP/1.1\r\n%b\r\n\r\n" % (method, route.strip, target, more, FIELDS),
    ):
        sent = again.sent(data)
        if sent is None:
            continue
        assert data.find(b"\r\n\r\n") == len(data) - 4, "one head and nothing else"
        try:
            head, request = read(data)
        except BadHead:
            pytest.fail(f"the long way refuses {data!r}")
        assert (head.target, head.method) == (again.head.target, again.head.method)
        assert request.target == again.request.target
        assert not request.target.startswith(route.strip + b"/.codehub/")
        fields = request_fields(head.fields, request, route)
        assert sent == b"%b %b HTTP/1.1\r\n%b" % (head.method, sent_target(head.target, route), fields)


def test_it_takes_what_browsers_send() -> None:
    for route in ROUTES:
        again = remembered(route)
        assert again is not None
        for path in (b"", b"a", b"static/x.js?v=1%20&b=%C3%A9", b"a//b", b"~user/@x:y;z=1,2"):
            sent = again.sent(b"GET %b/%b HTTP/1.1\r\n%b\r\n\r\n" % (route.strip, path, FIELDS))
            assert sent is not None
            assert sent.startswith(b"GET /%b HTTP/1.1\r\nhost: hub\r\n" % path)


@pytest.mark.parametrize(("method", "fields"), [
    (b"POST", FIELDS), (b"GET", FIELDS + b"\r\nContent-Length: 3"), (b"GET", FIELDS + b"\r\nConnection: close"),
    (b"GET", FIELDS + b"\r\nTransfer-Encoding: chunked"), (b"GET", FIELDS + b"\r\nExpect: 100-continue"),
    (b"GET", FIELDS + b"\r\nConnection: upgrade\r\nUpgrade: websocket"), (b"GET", FIELDS + b"\r\nUpgrade: h2c"),
])  # fmt: skip
def test_what_is_more_than_a_question_takes_the_long_way(method: bytes, fields: bytes) -> None:
    assert remembered(ROUTES[0], method, fields) is None


def counted(peer: Peer) -> None:
    while True:
        head = peer.head()
        if b" /close " in head:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nclose")
            return
        ok(peer, head.split()[1])


@contextmanager
def warm() -> Iterator[tuple[Proxy, Peer]]:
    """A connection that asked the same twice, so that the third may take the short way."""
    with through(counted) as (here, _):
        peer = here.connect()
        for _ in range(2):
            assert get(peer, b"/warm") == b"/warm"
        yield here, peer


def get(peer: Peer, target: bytes) -> bytes:
    peer.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
    return peer.answer()[2]


def test_the_gate_is_not_asked_while_its_answer_is_good() -> None:
    with warm() as (here, peer):
        asked = len(here.gate.requests)
        for number in range(20):
            assert get(peer, b"/%d" % number) == b"/%d" % number
        assert len(here.gate.requests) == asked
        here.gate.only.good_until = 0.0
        here.gate.choose = lambda _: Refusal(403, "no", "No longer.")
        assert b"No longer." in get(peer, b"/x")


def test_what_cannot_be_read_is_refused_on_a_warm_connection_too() -> None:
    for bad in (b"/a b", b"/a\x00", b"/\xc3\xa9", b"/a\tb", b"/x#y", b"x", b""):
        with warm() as (_, peer):
            peer.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % bad)
            assert peer.answer()[0] == 400


def test_pipelined_and_divided_and_dying_as_ever() -> None:
    with warm() as (_, peer):
        peer.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(5)))
        assert [peer.answer()[2] for _ in range(5)] == [b"/%d" % number for number in range(5)]
        peer.send(b"GET /half HTTP/1.1\r\nHo")
        peer.send(b"st: a\r\n\r\n")
        assert peer.answer()[2] == b"/half"
        for _ in range(3):  # the upstream closes after each
            assert get(peer, b"/close") == b"close"
            assert get(peer, b"/after") == b"/after"
        peer.send(b"HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"content-length: 5\r\n" in peer.head()
        assert get(peer, b"/last") == b"/last"
