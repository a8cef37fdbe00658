"""What `make fuzz-proxy` takes for a failure."""

import pytest

from tests.proxy.fuzzing import answer_in, is_part_of, is_same_answer, requests_in

ONE, TWO, THREE = [(b"GET", b"/%d" % number, b"") for number in (1, 2, 3)]


@pytest.mark.parametrize("got", [[], [ONE], [TWO], [ONE, THREE], [ONE, TWO, THREE]])
def test_the_proxy_may_refuse_some(got: list[object]) -> None:
    assert is_part_of(got, [ONE, TWO, THREE])


@pytest.mark.parametrize("got", [[ONE, TWO, THREE], [ONE, ONE], [TWO, ONE], [THREE]])
def test_more_than_was_sent_is_smuggling(got: list[object]) -> None:
    assert not is_part_of(got, [ONE, TWO])


def test_a_body_that_one_reader_takes_for_a_request_is_found() -> None:
    inner = b"GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"
    sent = requests_in(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(inner), inner))
    assert sent == [(b"POST", b"/", inner)]
    assert not is_part_of([(b"POST", b"/", b""), (b"GET", b"/inner", b"")], sent)


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", "200 ok"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "204"),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", "200 to the end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None),
        (b"nonsense\r\n\r\n", None),
    ],
)
def test_an_answer_is_what_h11_reads(raw: bytes, meant: str | None) -> None:
    assert answer_in(raw) == meant


@pytest.mark.parametrize(
    ("said", "meant", "is_same"),
    [("200 ok", "200 ok", True), ("cut", "200 ok", True), ("502", "200 ok", True), ("502", None, True),
     ("200 evil", "200 ok", False), ("200", "200 ok", False), ("404", "200 ok", False), ("", None, False)],
)  # fmt: skip
def test_an_answer_that_a_client_reads_otherwise_is_found(said: str, meant: str | None, *, is_same: bool) -> None:
    assert is_same_answer(said, meant) is is_same
