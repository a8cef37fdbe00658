"""Several API processes: one that dies takes no question along, and nothing that changes something is sent twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from codehub.web.proxy.backends import Backends
from codehub.web.proxy.ports import Decision, Request, Route
from tests.proxy.world import Handler, Peer, PlainGate, Proxy, Upstream, proxy, upstream

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

    def failed(self, route: Route, _request: Request) -> Decision:
        assert self.backends is not None
        return self.backends.failed(route)


@contextmanager
def before(*handlers: Handler) -> Iterator[tuple[Proxy, list[Upstream]]]:
    with upstream(handlers[0]) as one, upstream(handlers[1]) as two:
        apis = [one, two]
        gate = Shared(Route("unused", one.address), backends=Backends([each.address for each in apis]))
        with proxy(gate) as here:
            yield here, apis


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
