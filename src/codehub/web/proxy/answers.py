"""Answers of the proxy's own: small, the API's error shape, never stored by anyone."""

import json
from http import HTTPStatus

from codehub.web.errors import error_body
from codehub.web.headers import SECURITY_HEADERS
from codehub.web.proxy.ports import Refusal

_SECURITY = "".join(f"{name.lower()}: {value}\r\n" for name, value in SECURITY_HEADERS.items()).encode()

UNREACHABLE = Refusal(502, "unreachable", "What should answer here cannot be reached. Try again in a moment.")
NO_ANSWER = Refusal(502, "no_answer", "What should answer here closed the connection without an answer.")
BAD_ANSWER = Refusal(502, "bad_answer", "What should answer here did not answer in HTTP/1.1.")
LATE = Refusal(504, "no_answer", "What should answer here took nothing, or said nothing, for too long.")
CROSS_ORIGIN = Refusal(403, "cross_origin", "A page of another origin may not open a WebSocket here.")
BAD_METHOD = Refusal(405, "method_not_allowed", "This method is not served here.")
BAD_EXPECT = Refusal(417, "expectation_failed", "The only expectation that can be met is 100-continue.")
TOO_MANY = Refusal(503, "too_many_connections", "Too many connections are open. Try again in a moment.")
FAILED = Refusal(500, "internal_server_error", "Something went wrong here; the log has the details.")


def answer_bytes(refusal: Refusal, *, close: bool, with_body: bool = True) -> bytes:
    body = json.dumps(error_body(refusal.code, refusal.message)).encode() + b"\n"
    phrase = HTTPStatus(refusal.status).phrase.encode()
    return b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b%b%b\r\n%b" % (
        refusal.status,
        phrase,
        len(body),
        _SECURITY,
        b"retry-after: 1\r\n" if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE else b"",
        b"connection: close\r\n" if close else b"",
        body if with_body else b"",
    )
