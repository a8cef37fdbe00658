"""Connections that end: kept ones, dead ones, vanished clients, half-closed ones, upstreams that are gone."""

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Decision, Request, Route
from tests.proxy.world import (
    GONE,
    QUICK,
    WORKSPACE,
    Peer,
    PlainGate,
    echo_heads,
    ok,
    proxy,
    through,
    upstream,
)
from tests.support import eventually, short_folder

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"


def once(peer: Peer) -> None:
    """Answers one request, and closes when the next comes."""
    head = peer.head()
    if b"content-length: 2" in head:
        peer.exactly(2)
    ok(peer)
    peer.head()


def test_a_kept_connection_that_turns_out_dead_is_tried_again_once() -> None:
    with through(once) as (here, there):
        peer = here.connect()
        for number in range(1, 4):
            peer.send(GET)
            assert peer.answer()[0] == 200
            assert len(there.connections) == number


def test_the_gate_is_asked_before_anything_is_tried_again() -> None:
    """What it said of the first try may no longer hold: who has to leave would be forgotten inside."""
    with through(once) as (here, there):
        answers: list[Decision] = [here.gate.only, here.gate.only, GONE]
        here.gate.choose = lambda _: answers.pop(0)
        peer = here.connect()
        peer.send(GET)
        assert peer.answer()[0] == 200
        peer.send(GET)
        assert peer.answer()[0] == GONE.status
        assert len(there.connections) == 1


def test_what_cannot_be_sent_twice_is_not() -> None:
    with through(once) as (here, there):
        peer = here.connect()
        peer.send(POST)
        assert peer.answer()[0] == 200
        peer.send(POST)
        assert peer.answer()[0] == 502
        assert len(there.connections) == 1


def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    def close(peer: Peer) -> None:
        peer.head()
        peer.exactly(2)
        ok(peer)

    with through(close) as (here, there):
        peer = here.connect()
        for number in range(1, 4):
            peer.send(POST)
            assert peer.answer()[0] == 200
            eventually(lambda: there.connections[-1].sock.fileno() < 0, "closed")
            # The proxy sees the close before anything that is sent later.
            here.ask(b"nonsense\r\n\r\n")
            assert len(there.connections) == number


def test_connections_are_kept_under_the_route_s_key_never_under_its_address() -> None:
    with upstream(echo_heads) as there:
        routes = {name: Route(name, there.address, WORKSPACE) for name in (b"/a", b"/b")}
        gate = PlainGate(routes[b"/a"], choose=lambda request: routes[request.target])
        with proxy(gate, QUICK) as here:
            peer = here.connect()
            for _ in range(3):
                for target in routes:
                    peer.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
                    assert peer.answer()[0] == 200
            assert len(there.connections) == 2


def test_kept_connections_are_closed_after_a_while() -> None:
    with through(echo_heads, Limits(pool_seconds=0.2, drain_seconds=0.1, tunnel_seconds=0.1)) as (here, there):
        assert here.ask(GET)[0] == 200
        eventually(lambda: there.connections[0].sock.fileno() < 0, "closed")


def test_an_upstream_that_is_gone_is_asked_about_and_answered_for() -> None:
    with upstream(echo_heads) as there, socket.create_server(("127.0.0.1", 0)) as nobody:
        gone = Route("gone", f"127.0.0.1:{nobody.getsockname()[1]}", WORKSPACE)
        nobody.close()
        with proxy(PlainGate(gone, after_failure=GONE), QUICK) as here:
            peer = here.connect()
            peer.send(GET)
            assert b"It is gone." in peer.answer()[2]
            peer.send(POST)  # its body was not read: closed
            assert b"It is gone." in peer.answer()[2]
            assert peer.rest() == b""
        with proxy(PlainGate(gone, after_failure=Route("api", there.address)), QUICK) as here:
            assert here.ask(GET)[2].startswith(b"GET / ")
        with proxy(PlainGate(gone, after_failure=gone), QUICK) as here:
            assert b"unreachable" in here.ask(GET)[2]


def test_an_upstream_that_does_not_accept_is_given_up_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:  # nobody accepts: the next to come waits
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        route = Route("full", f"127.0.0.1:{full.getsockname()[1]}", WORKSPACE)
        limits = Limits(connect_seconds=0.3, drain_seconds=0.1, tunnel_seconds=0.1)
        with proxy(PlainGate(route), limits) as here:
            assert b"It is gone." in here.ask(GET)[2]
        for filler in fillers:
            filler.close()


def test_a_gate_that_must_ask_and_one_that_fails() -> None:
    with upstream(echo_heads) as there:
        route = Route("one", there.address, WORKSPACE)

        async def slowly(request: Request) -> Decision:
            await asyncio.sleep(0.05)
            if request.target == b"/bad":
                raise RuntimeError("on purpose")
            return route if request.target == b"/" else GONE

        with proxy(PlainGate(route, choose=slowly), QUICK) as here:
            peer = here.connect()
            bad, no = GET.replace(b"/ ", b"/bad "), GET.replace(b"/ ", b"/no ")
            peer.send(GET + POST + bad + no + GET)  # a body that comes before it is known where it goes
            assert [peer.answer()[0] for _ in range(5)] == [200, 200, 500, 502, 200]


def test_a_gate_that_breaks_is_a_500() -> None:
    def broken(_request: Request) -> Decision:
        raise RuntimeError("on purpose")

    with proxy(PlainGate(Route("none", "127.0.0.1:1"), choose=broken), QUICK) as here:
        peer = here.connect()
        peer.send(GET + GET)
        assert [peer.answer()[0] for _ in range(2)] == [500, 500]


def until_it_is_left() -> tuple[Callable[[Peer], None], threading.Event]:
    """A server that never answers, and whether the proxy has gone away from it."""
    left = threading.Event()

    def wait(peer: Peer) -> None:
        try:
            peer.head()
            peer.rest()
        finally:
            left.set()

    return wait, left


def test_a_client_that_vanishes_takes_its_request_with_it() -> None:
    wait, left = until_it_is_left()
    with through(wait) as (here, there):
        peer = here.connect()
        peer.send(GET)
        eventually(lambda: bool(there.connections), "connected")
        peer.reset()
        assert left.wait(10)
        assert not here.gate.only.open


def test_a_client_that_vanishes_while_it_uploads() -> None:
    wait, left = until_it_is_left()
    with through(wait) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        peer.end_sending()  # it will never be whole
        assert left.wait(10)


def test_a_half_closed_client_gets_its_answer() -> None:
    go = threading.Event()

    def late(peer: Peer) -> None:
        peer.head()
        go.wait(10)
        ok(peer, b"late")

    with through(late) as (here, there):
        peer = here.connect()
        peer.send(GET)
        peer.end_sending()
        eventually(lambda: bool(there.connections), "connected")
        go.set()
        assert peer.answer()[2] == b"late"
        assert peer.rest() == b""


def test_a_half_closed_client_gets_all_its_answers() -> None:
    with through(echo_heads) as (here, _):
        peer = here.connect()
        peer.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(20)) + b"GET /half")
        peer.end_sending()
        assert [peer.answer()[2].split()[1] for _ in range(20)] == [b"/%d" % number for number in range(20)]
        assert peer.rest() == b""


def test_a_half_closed_client_that_may_be_gone_is_not_waited_for() -> None:
    wait, left = until_it_is_left()
    with through(wait, Limits(half_closed_seconds=0.3, drain_seconds=0.1, tunnel_seconds=0.1)) as (here, _):
        peer = here.connect()
        peer.send(GET)
        peer.close()
        assert left.wait(10)


@pytest.mark.parametrize("more", [GET, POST])
def test_nor_is_one_that_had_asked_for_more(more: bytes) -> None:
    def first_only(peer: Peer) -> None:
        while b"/first" in peer.head():
            ok(peer)
        peer.rest()

    with through(first_only, Limits(half_closed_seconds=0.3, drain_seconds=0.1, tunnel_seconds=0.1)) as (here, _):
        peer = here.connect()
        peer.send(GET.replace(b"/ ", b"/first ") + more)
        peer.end_sending()
        assert peer.answer()[0] == 200
        with pytest.raises(ConnectionResetError):
            peer.rest()


def test_an_early_answer_arrives_although_the_client_is_still_sending() -> None:
    def refuse(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        peer.end_sending()
        peer.rest()

    with through(refuse) as (here, _):
        peer = here.connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 50_000_000)
        assert peer.answer()[2] == b"big"


def test_whoever_ends_a_visit_ends_what_is_under_way() -> None:
    def wait(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        peer.rest()

    with through(wait) as (here, _):
        peer = here.connect()
        peer.send(GET)
        peer.until(b"abc")
        (exchange,) = here.gate.only.open
        here.call(exchange.end)
        with pytest.raises(ConnectionResetError):
            peer.rest()
        eventually(lambda: not here.gate.only.open, "nothing is open")


def test_a_port_is_named_first_on_a_socket_that_leads_to_all_of_them() -> None:
    path = short_folder() / "ports"
    said: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        peer = Peer(sock)
        for _ in range(2):
            said.append(peer.head())
            ok(peer)
        peer.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        route = Route(("w", 3000), f"unix:{path}", WORKSPACE, port=3000)
        with proxy(PlainGate(route), QUICK) as here:
            peer = here.connect()
            for _ in range(2):
                peer.send(GET)
                assert peer.answer()[0] == 200
    assert said[0].startswith(b"3000\nGET / HTTP/1.1\r\n")
    assert said[1].startswith(b"GET / HTTP/1.1\r\n")
    Path(path).unlink()


def test_stopping_lets_exchanges_end_and_accepts_nothing_new() -> None:
    go = threading.Event()

    def late(peer: Peer) -> None:
        while True:
            if b"/late" in peer.head():
                go.wait(10)
            ok(peer, b"late")

    with through(late, Limits(drain_seconds=5, tunnel_seconds=0.2)) as (here, _):
        busy, idle = here.connect(), here.connect()
        idle.send(GET)
        assert idle.answer()[0] == 200
        busy.send(GET.replace(b"/ ", b"/late "))
        eventually(lambda: len(here.gate.requests) == 2, "under way")
        here.stop()
        assert idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            here.connect()
        go.set()
        status, fields, body = busy.answer()
        assert (status, fields[b"connection"], body) == (200, b"close", b"late")
        assert busy.rest() == b""


def test_stopping_does_not_wait_for_ever() -> None:
    def never(peer: Peer) -> None:
        peer.head()
        peer.rest()

    with through(never) as (here, _):
        peer = here.connect()
        peer.send(GET)
        eventually(lambda: bool(here.gate.requests), "under way")
        here.stop()
        with pytest.raises(ConnectionResetError):
            peer.rest()
