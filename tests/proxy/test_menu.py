"""CodeHub's menu comes after the last byte of a page that a person opens, and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from codehub.web.proxy.menu import tail_at
from codehub.web.proxy.ports import Route
from tests.proxy.test_responses import says
from tests.proxy.world import WORKSPACE, PlainGate, Proxy, Upstream, parsed, proxy, upstream

TAIL = tail_at(b"")
PAGE = b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nIf-None-Match: x\r\nSec-Fetch-Dest: document\r\n\r\n"
SCRIPT = PAGE.replace(b"document", b"empty")
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
BODY = b"<!doctype html><h1>IDE</h1>"
SIZED = b"%bContent-Length: %d\r\n\r\n%b" % (HTML, len(BODY), BODY)


@contextmanager
def ide(response: bytes, *, close: bool = False, tail: bytes = TAIL) -> Iterator[tuple[Proxy, Upstream]]:
    with upstream(says(response, close=close)) as there:
        route = Route("one", there.address, WORKSPACE, tail=tail, good_until=float("inf"))
        with proxy(PlainGate(route)) as here:
            yield here, there


def test_a_page_of_a_known_size() -> None:
    with ide(SIZED) as (here, _):
        for _ in range(3):  # what was remembered of the answer before is another one
            status, fields, body = here.ask(PAGE)
            assert (status, body) == (200, BODY + TAIL)
            assert fields[b"cache-control"] == b"no-store", "no script may get it from a cache"
            assert here.ask(SCRIPT)[2] == BODY


def test_on_one_connection_pages_and_scripts_take_turns() -> None:
    with ide(SIZED) as (here, _):
        peer = here.connect()
        for request in (SCRIPT, SCRIPT, SCRIPT, PAGE, PAGE, PAGE, PAGE, SCRIPT, SCRIPT, SCRIPT):
            peer.send(request)
            assert peer.answer()[2] == BODY + (TAIL if request is PAGE else b"")


def test_a_page_in_chunks() -> None:
    sent = HTML + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"
    with ide(sent) as (here, _):
        peer = here.connect()
        peer.send(PAGE)
        peer.head()
        assert peer.until(b"x-sum: 1\r\n\r\n") == b"3\r\nabc\r\n%x\r\n%b\r\n0\r\nx-sum: 1\r\n\r\n" % (len(TAIL), TAIL)
        old = here.connect()
        old.send(PAGE.replace(b"HTTP/1.1", b"HTTP/1.0"))
        old.head()
        assert old.rest() == b"abc" + TAIL


def test_a_page_until_the_end() -> None:
    with ide(HTML + b"\r\n" + BODY, close=True) as (here, _):
        peer = here.connect()
        peer.send(PAGE)
        assert parsed(peer.head())[1][b"transfer-encoding"] == b"chunked"
        assert peer.until(b"0\r\n\r\n").count(TAIL) == 1


def test_the_workspace_is_asked_for_the_whole_page_as_it_is() -> None:
    heads = []

    def note(peer: object) -> None:
        while True:
            heads.append(peer.head().lower())  # type: ignore[attr-defined]
            peer.send(SIZED)  # type: ignore[attr-defined]

    with upstream(note) as there:
        route = Route("one", there.address, WORKSPACE, tail=TAIL)
        with proxy(PlainGate(route)) as here:
            here.ask(PAGE)
            here.ask(SCRIPT)
    assert b"accept-encoding" not in heads[0]
    assert b"if-none-match" not in heads[0]
    assert b"accept-encoding: gzip" in heads[1]
    assert b"if-none-match: x" in heads[1]


@pytest.mark.parametrize("response", [
    SIZED.replace(b"text/html", b"application/xhtml+xml"),
    SIZED.replace(b"text/html", b"text/plain"),
    SIZED.replace(b"utf-8", b"utf-16le"),
    SIZED.replace(b"200 OK", b"404 No"),
    SIZED.replace(b"200 OK", b"206 Part"),
    SIZED.replace(HTML, HTML + b"Content-Encoding: gzip\r\n"),
    SIZED.replace(HTML, HTML + b"Content-Disposition: attachment; filename=x.html\r\n"),
    SIZED.replace(HTML, HTML + b"Cache-Control: private, no-transform\r\n"),
    SIZED.replace(HTML, HTML + b"Content-Digest: sha-256=:x:\r\n"),
    SIZED.replace(HTML, HTML + b"Content-Security-Policy: Sandbox allow-scripts\r\n"),
    SIZED.replace(HTML, HTML + b"Content-Security-Policy: default-src 'self', img-src *; sandbox\r\n"),
])  # fmt: skip
def test_what_is_no_page_or_may_not_be_touched_stays_as_it_is(response: bytes) -> None:
    assert response != SIZED
    with ide(response) as (here, _):
        assert here.ask(PAGE)[2] == BODY


@pytest.mark.parametrize("policy", [b"default-src 'self'; report-uri /sandbox", b"img-src sandbox.example"])
def test_a_policy_without_a_sandbox_forbids_nothing(policy: bytes) -> None:
    with ide(SIZED.replace(HTML, HTML + b"Content-Security-Policy: %b\r\n" % policy)) as (here, _):
        assert here.ask(PAGE)[2] == BODY + TAIL


def test_nothing_is_added_for_other_requests_or_where_there_is_no_menu() -> None:
    with ide(SIZED) as (here, _):
        for dest in (b"iframe", b"empty", b"script", b"object"):
            assert here.ask(PAGE.replace(b"document", dest))[2] == BODY
        assert here.ask(PAGE.replace(b"Sec-Fetch-Dest: document\r\n", b""))[2] == BODY
        assert here.ask(PAGE.replace(b"GET", b"POST"))[2] == BODY
        peer = here.connect()
        peer.send(PAGE.replace(b"GET", b"HEAD"))
        assert parsed(peer.head())[1][b"content-length"] == b"%d" % len(BODY)
    with ide(SIZED, tail=b"") as (here, _):
        assert here.ask(PAGE)[2] == BODY
