"""Every request and answer of the corpus, through a running proxy; what is behind it and before it is read by h11.

`make fuzz-proxy` looks for more of them (fuzzing.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import h11
import pytest

from tests.proxy.corpus import read
from tests.proxy.world import QUICK, Peer, Proxy, parsed, through

REQUESTS, ANSWERS = read("requests"), read("answers")
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"


def test_the_corpus_is_not_forgotten() -> None:
    assert len(REQUESTS) >= 300
    assert len(ANSWERS) >= 100


class Behind:
    """What another reader makes of what gets through: each request with its body, once it is whole."""

    def __init__(self) -> None:
        self.seen: list[tuple[h11.Request, bytes]] = []

    def __call__(self, peer: Peer) -> None:
        reader = h11.Connection(h11.SERVER)
        request, body = h11.Request(method="NONE", target="/", headers=[("Host", "none")]), b""
        while data := peer.sock.recv(65536):
            reader.receive_data(data)
            while (event := reader.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Request):
                    request, body = event, b""
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self.seen.append((request, body))
                    reader.send(h11.Response(status_code=204, headers=[]))
                    reader.send(h11.EndOfMessage())
                    peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
                    reader.start_next_cycle()

    def take(self) -> list[tuple[h11.Request, bytes]]:
        seen, self.seen = self.seen, []
        return seen


@contextmanager
def running() -> Iterator[tuple[Proxy, Behind]]:
    behind = Behind()
    with through(behind, QUICK) as (here, _):
        yield here, behind


def wrong_about_request(here: Proxy, behind: Behind, expected: str, raw: bytes) -> str | None:
    """What is wrong, if anything is."""
    peer = here.connect()
    with suppress(ConnectionError):  # what is refused early is not read to its end
        peer.send(raw + NEXT)
        peer.end_sending()
    statuses = []
    with suppress(ConnectionError, EOFError):
        while True:
            status, fields = parsed(peer.head())
            peer.exactly(int(fields.get(b"content-length", b"0")) if status != 204 else 0)
            statuses.append(status)
    peer.close()
    seen = behind.take()
    found = [_described(request, body) for request, body in seen]
    if not expected.startswith("-> "):
        is_framed = expected in ("405", "417")  # then it is known where the next one begins
        wanted = [int(expected), *([204] if is_framed else [])]
        through_it = ["GET /next @a"] if is_framed else []
        return None if (statuses, found) == (wanted, through_it) else f"{statuses} {found}"
    wanted_requests = [*expected.removeprefix("-> ").split(" & "), "GET /next @a"]
    for wanted_request, got, (request, _) in zip(wanted_requests, found, seen, strict=False):
        said, *absent = wanted_request.split(" -")
        names = {name for name, _ in request.headers}
        if said != got or any(name.encode() in names for name in absent):
            return f"{got} {names}"
    return None if len(found) == len(wanted_requests) else f"{statuses} {found}"


def _described(request: h11.Request, body: bytes) -> str:
    host = dict(request.headers)[b"host"]
    said = f"{request.method.decode()} {_escaped(request.target)} @{host.decode()}"
    return f"{said} {body.decode('latin-1')}".rstrip(" ")


def _escaped(target: bytes) -> str:
    return target.decode("latin-1").encode("unicode-escape").decode()


def test_each_request_is_refused_or_read_by_everybody_alike() -> None:
    with running() as (here, behind):
        wrong = {raw: told for expected, raw in REQUESTS if (told := wrong_about_request(here, behind, expected, raw))}
    assert not wrong


def found_by_the_browser(here: Proxy) -> tuple[str, frozenset[bytes]]:
    """An answer as another reader sees it, with the names of its fields and trailers; `cut` if it never gets whole."""
    peer = here.connect()
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    reader.send(h11.EndOfMessage())
    peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, body, names = 0, b"", set()
    try:
        while True:
            event = reader.next_event()
            if event is h11.NEED_DATA:
                reader.receive_data(peer.sock.recv(65536))
            elif isinstance(event, h11.Response):
                status, names = event.status_code, {name for name, _ in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                names |= {name for name, _ in event.headers}
                break
    except (ConnectionError, h11.RemoteProtocolError):
        return "cut", frozenset()
    assert reader.trailing_data[0] == b"", "nothing comes after it"
    peer.close()
    return written(status, body), frozenset(names)


def written(status: int, body: bytes) -> str:
    """An answer in a line; what refuses has a body of its own."""
    return f"{status} {body.decode('latin-1')}".rstrip() if status < 400 else str(status)


def test_each_answer_is_whole_and_says_nothing_that_is_not_its_own_or_is_none() -> None:
    at = iter(ANSWERS)
    wrong: dict[bytes, str] = {}
    current = [b""]

    def hostile(peer: Peer) -> None:
        peer.head()
        peer.send(current[0])

    with through(hostile, QUICK) as (here, _):
        for expected, raw in at:
            current[0] = raw
            said, *absent = expected.split(" -")
            found, names = found_by_the_browser(here)
            is_as_said = found == said or (said == "cut" and found == "502")
            if not is_as_said or any(name.encode() in names for name in absent):
                wrong[raw] = f"{found} {set(names)}, not {expected}"
    assert not wrong


@pytest.mark.parametrize("name", ["requests", "answers"])
def test_no_line_stands_twice(name: str) -> None:
    lines = [raw for _, raw in read(name)]
    assert len(set(lines)) == len(lines)
