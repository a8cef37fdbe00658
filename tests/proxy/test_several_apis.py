"""Several API processes: one that dies takes no question along, and nothing that changes something is sent twice."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from codehub.web.proxy.backends import Backends
from codehub.web.proxy.ports import Decision, Request, Route
from tests.proxy.world import Handler, Peer, PlainGate, Proxy, Upstream, proxy, upstream
from tests.support import free_port

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


def answers(peer: Peer) -> None:
    while True:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def dies(peer: Peer) -> None:
    peer.head()
    peer.reset()


@dataclass
class Shared(PlainGate):
    """Everything goes to the API processes, in turn."""

    backends: Backends | None = None

    def route(self, _request: Request) -> Decision:
        assert self.backends is not None
        return self.backends.route()

    def failed(self, tried: Sequence[Route], _request: Request) -> Decision:
        assert self.backends is not None
        return self.backends.failed(tried)


@contextmanager
def before(*handlers: Handler) -> Iterator[tuple[Proxy, list[Upstream]]]:
    with ExitStack() as stack:
        apis = [stack.enter_context(upstream(each)) for each in handlers]
        yield stack.enter_context(leading_to(*(each.address for each in apis))), apis


@contextmanager
def leading_to(*addresses: str) -> Iterator[Proxy]:
    with proxy(Shared(Route("unused", addresses[0]), backends=Backends(addresses))) as here:
        yield here


def test_a_question_that_an_api_died_over_is_answered_by_the_next() -> None:
    with before(dies, answers) as (here, (dying, _)):
        for _ in range(4):
            assert here.ask(GET)[::2] == (200, b"ok")
        assert dying.connections, "the first one was never asked"


def test_what_changes_something_is_not_sent_twice() -> None:
    with before(dies, dies) as (here, apis):
        assert here.ask(POST)[0] == 502
        assert sum(len(each.connections) for each in apis) == 1


def test_a_question_that_kills_is_asked_twice_and_no_more() -> None:
    with before(dies, dies) as (here, apis):
        assert here.ask(GET)[0] == 502
        assert sum(len(each.connections) for each in apis) == 2


def answers_once(peer: Peer) -> None:
    peer.head()
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def test_one_that_was_out_a_moment_ago_is_asked_when_the_others_are() -> None:
    """As while they are replaced one after the other."""
    ports = [free_port(), free_port()]
    with leading_to(*(f"127.0.0.1:{each}" for each in ports)) as here:
        with upstream(answers_once, ports[1]):
            assert [here.ask(GET)[0] for _ in range(2)] == [200, 200], "each had its turn"
        with upstream(answers_once, ports[0]):
            assert [here.ask(GET)[0] for _ in range(2)] == [200, 200], "each had its turn"


def test_each_is_asked_before_it_is_said_that_none_answers() -> None:
    gone = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with upstream(answers_once) as there, leading_to(*gone, there.address) as here:
        assert [here.ask(POST)[0] for _ in range(6)] == [200] * 6
    with leading_to(*gone) as here:
        status, fields, _ = here.ask(GET)
        assert (status, fields[b"retry-after"]) == (503, b"1")
