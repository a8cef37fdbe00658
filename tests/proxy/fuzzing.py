"""`make fuzz-proxy`: for a while, what nobody thought of yet goes through the proxy, beside h11 as the second reader.

Lines of the corpus are cut, joined and changed at random, as Hypothesis draws it. It must hold, whatever is sent:

- What arrives behind the proxy is whole requests to h11, and none but those that h11 finds in what was sent, in their
  order, unless h11 refuses that.
- What arrives at the browser is one whole answer to h11, and the same that h11 finds in what was sent, or none.

A failure is made as small as can be and printed as a line for the corpus (tests/proxy/corpus).
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import h11
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.proxy.corpus import line_of, read
from tests.proxy.test_corpus import NEXT, found_by_the_browser, running, written
from tests.proxy.world import QUICK, Peer, parsed, through

EXAMPLES = 300  # of each kind in a round
LONGEST = 4096
ODD = [bytes([byte]) for byte in (0, 9, 10, 11, 13, 32, 44, 48, 58, 59, 95, 127, 255)] + [
    b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\n ", b"0\r\n\r\n", b"5\r\nhello\r\n", b"Content-Length: 5\r\n", b"chunked",
    b"Transfer-Encoding: chunked\r\n", b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\n",
]  # fmt: skip


def changed(name: str) -> st.SearchStrategy[bytes]:
    """A line of the corpus, or the begin of one and the end of another, with something changed."""
    lines = [raw for _, raw in read(name) if len(raw) < LONGEST]

    @st.composite
    def draw_one(draw: st.DrawFn) -> bytes:
        raw = draw(st.sampled_from(lines))
        if draw(st.booleans()):
            other = draw(st.sampled_from(lines))
            raw = raw[: draw(st.integers(0, len(raw)))] + other[draw(st.integers(0, len(other))) :]
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(raw)))
            raw = raw[:at] + draw(st.sampled_from(ODD)) + raw[at + draw(st.integers(0, 2)) :]
        return raw

    return draw_one()


def requests_in(raw: bytes) -> Sequence[tuple[bytes, bytes, bytes]] | None:
    """Method, target and body of each, as h11 reads them; None where it refuses, or reads no whole one."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    found: list[tuple[bytes, bytes, bytes]] = []
    method, target, body = b"", b"", b""
    try:
        reader.receive_data(raw)
        while (event := reader.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Request):
                method, target, body = event.method, event.target, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                found.append((method, target, body))
                reader.send(h11.Response(status_code=204, headers=[]))
                reader.send(h11.EndOfMessage())
                if reader.our_state is not h11.DONE:
                    break
                reader.start_next_cycle()
            else:
                return None
    except h11.ProtocolError:
        return None
    return found


def fuzz_requests(number: int) -> None:
    with running() as (here, behind):

        @_limited(number)
        @given(changed("requests"))
        def run(raw: bytes) -> None:
            peer = here.connect()
            with suppress(ConnectionError):
                peer.send(raw + NEXT)
                peer.end_sending()
            answered = 0
            with suppress(ConnectionError, EOFError):
                while True:
                    status, fields = parsed(peer.head())
                    peer.exactly(int(fields.get(b"content-length", b"0")) if status != 204 else 0)
                    answered += status == 204
            peer.close()
            got = [(request.method, request.target, body) for request, body in behind.take()]
            sent = requests_in(raw + NEXT)
            assert answered <= len(got), f"answered what never arrived; add: {line_of('400', raw)}"
            if sent is not None:
                same = [(method, _path(target), body) for method, target, body in sent]
                assert is_part_of(got, same), f"read in two ways; add: {line_of('400', raw)}"

        run()


def is_part_of(got: Sequence[object], sent: Sequence[object]) -> bool:
    """Whether nothing arrived that was not sent, nor in another order: the proxy may refuse, but not make up."""
    left = iter(sent)
    return all(each in left for each in got)


def _path(target: bytes) -> bytes:
    """As the proxy writes it."""
    scheme, colon, rest = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        return target
    ends = [at for mark in (b"/", b"?") if (at := rest.find(mark)) >= 0]
    path = rest[min(ends) :] if ends else b""
    return path if path.startswith(b"/") else b"/" + path


def fuzz_answers(number: int) -> None:
    current = [b""]

    def hostile(peer: Peer) -> None:
        peer.head()
        peer.send(current[0])

    with through(hostile, QUICK) as (here, _):

        @_limited(number)
        @given(changed("answers"))
        def run(raw: bytes) -> None:
            current[0] = raw
            said, _ = found_by_the_browser(here)
            assert is_same_answer(said, answer_in(raw)), f"read in two ways; add: {line_of('502', raw)}"

        run()


def answer_in(raw: bytes) -> str | None:
    """Status and body, as h11 reads them without the proxy and found_by_the_browser writes them; None if it refuses."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    reader.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        reader.receive_data(raw)
        reader.receive_data(b"")
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None
    return written(status, body)


def is_same_answer(said: str, meant: str | None) -> bool:
    """Whether the browser got what h11 reads in it, or was told that nothing whole came."""
    is_refused = said == "cut" or said in ("502", "504")
    return is_refused or (said[:3].isdigit() if meant is None else said == meant)


def _limited(number: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    limits = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    return lambda test: seed(number)(limits(test))


def main() -> int:
    seconds = float(os.environ.get("SECONDS") or 300)
    given_seed = os.environ.get("SEED")
    number = int(given_seed) if given_seed else time.time_ns() % 1_000_000
    until = time.monotonic() + seconds
    rounds = 0
    while rounds == 0 or (time.monotonic() < until and not given_seed):
        try:
            fuzz_requests(number + rounds)
            fuzz_answers(number + rounds)
        except AssertionError:
            sys.stderr.write(f"\nFound something. The same again: make fuzz-proxy SEED={number + rounds}\n")
            raise
        rounds += 1
    told = f"{rounds * EXAMPLES} requests and as many answers, from seed {number} on"
    sys.stdout.write(f"{told}: nothing was read in two ways.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
