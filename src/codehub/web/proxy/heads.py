"""Reading heads: one strict reading, from which everything that goes on is written anew.

What two readers could take for different things is refused, not repaired: bare CR or LF, folded lines, blanks before a
colon, control characters, lengths given twice or beside a transfer coding, codings other than `chunked`, two
Authorization fields, a Host that is not a name or an address.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from codehub.web.proxy.names import is_claim, is_plain

_NO_TEXT = bytes([*range(9), *range(10, 32), 127])  # a tab is a blank
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VISIBLE = bytes(range(33, 127))
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_HOST = re.compile(rb"(?:[0-9A-Za-z._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")  # no sub-delims: no comma
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
MAX_FIELDS = 128
_MAX_METHOD = 32
_OF_SENDER = (b"host", b"authorization")
_SECRET = (b"authorization", b"cookie", b"set-cookie")  # not kept for longer than they are needed
_MAX_KNOWN, _MAX_KNOWN_STATUS, _MAX_KNOWN_BYTES = 4096, 64, 256  # of lines that were read before


class BadHead(Exception):
    """What is wrong with a head, and the status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True, eq=False)
class Fields:
    """The fields of a head; names in lower case, in the order they came."""

    pairs: list[tuple[bytes, bytes]]
    lines: list[bytes | None]  # each of them as it is sent on; None where that must be thought about
    length: int | None = None  # of the body, where the head says so
    is_chunked: bool = False
    connection: tuple[bytes, ...] = ()  # what the Connection field names, in lower case
    host: bytes | None = None
    upgrade: bytes = b""
    expect: bytes = b""
    has_authorization: bool = False
    has_claims: bool = False  # whether one says where the request came from
    is_page: bool = False  # a browser asks for what it shows in a tab


@dataclass(slots=True, eq=False)
class RequestHead:
    """`target` in origin form."""

    method: bytes
    target: bytes
    minor: int
    fields: Fields


@dataclass(slots=True, eq=False)
class ResponseHead:
    """`line` is what stands between the version and the end of the line: status and reason."""

    status: int
    line: bytes
    minor: int
    fields: Fields
    sent: tuple[object, bytes] | None = None  # what its fields became, and for whom (headers.py)
    whole: tuple[object, bytes] | None = None  # … and the whole head, where the body came with it (client.py)


Handler = Callable[[Fields, bytes], None]
_KNOWN: dict[bytes, tuple[tuple[bytes, bytes], bytes | None, Handler | None]] = {}  # lines are much repeated
_KNOWN_STATUS: dict[bytes, tuple[int, bytes, int]] = {}


def read_request(head: bytes, known: dict[bytes, Fields] | None = None) -> RequestHead:
    """A request's head, without the empty line that ends it.

    `known` holds blocks of fields that were read before: browsers repeat theirs, and the same bytes mean the same.
    """
    line, _, block = head.partition(b"\r\n")
    try:
        method, target, version = line.split(b" ")
    except ValueError:
        raise BadHead("The request line is not one of HTTP/1.1.") from None
    if (
        (version != b"HTTP/1.1" and version != b"HTTP/1.0")  # noqa: PLR1714  quicker
        or not target
        or target.translate(None, _VISIBLE)
        or not 0 < len(method) <= _MAX_METHOD
        or method.translate(None, _TOKEN)
    ):
        raise BadHead("The request line is not one of HTTP/1.1.")
    minor = version[7] - 48
    fields = known.get(block) if known is not None else None
    if fields is None:
        fields = read_fields(block)
        if known is not None:
            known.clear()
            known[block] = fields
    if minor:
        if fields.host is None:
            raise BadHead("The request has no Host.")
    elif fields.is_chunked:
        raise BadHead("HTTP/1.0 has no transfer codings.")
    if target[0] != 47 or b"#" in target:  # 47 is "/"
        target = _origin_form(method, target, fields)
    return RequestHead(method, target, minor, fields)


def read_response(head: bytes) -> ResponseHead:
    """A response's head, without the empty line that ends it."""
    line, _, block = head.partition(b"\r\n")
    known = _KNOWN_STATUS.get(line)
    if known is None:
        known = _read_status(line)
    try:
        return ResponseHead(*known, read_fields(block))
    except BadHead as bad:
        raise BadHead(str(bad), 502) from None


def _read_status(line: bytes) -> tuple[int, bytes, int]:
    matched = _STATUS_LINE.fullmatch(line)
    if matched is None:
        raise BadHead("The status line is not one of HTTP/1.1.", 502)
    minor, status, reason = matched.groups()
    read = (int(status), b"%b %b" % (status, reason or b""), int(minor))
    if len(_KNOWN_STATUS) < _MAX_KNOWN_STATUS and len(line) <= _MAX_KNOWN_BYTES:
        _KNOWN_STATUS[line] = read
    return read


def read_fields(block: bytes) -> Fields:
    """Lines of fields, without the line end of the last."""
    pairs: list[tuple[bytes, bytes]] = []
    lines: list[bytes | None] = []
    fields = Fields(pairs, lines)
    if not block:
        return fields
    if block.count(b"\r\n") >= MAX_FIELDS:
        raise BadHead("The head has too many fields.", 431)
    known = _KNOWN
    for line in block.split(b"\r\n"):
        pair, sent, handler = known.get(line) or _read_line(line)
        pairs.append(pair)
        lines.append(sent)
        if handler is not None:
            handler(fields, pair[1])
    if fields.is_chunked and fields.length is not None:
        raise BadHead("The head has both a Content-Length and a Transfer-Encoding.")
    return fields


def _read_line(line: bytes) -> tuple[tuple[bytes, bytes], bytes | None, Handler | None]:
    raw, colon, value = line.partition(b":")
    if not colon or not raw or raw.translate(None, _TOKEN):
        raise BadHead("A line of the head is not a name, a colon and a value.")
    if len(value.translate(None, _NO_TEXT)) != len(value):
        raise BadHead("A line of the head has a control character in it, or ends in a bare CR or LF.")
    name, value = raw.lower(), value.strip(b" \t")
    is_sent = is_plain(name)
    handler = _SPECIAL.get(name) or (_claim if is_claim(name) else None)
    read = ((name, value), b"%b: %b\r\n" % (name, value) if is_sent else None, handler)
    if len(line) <= _MAX_KNOWN_BYTES and name not in _SECRET:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        _KNOWN[line] = read
    return read


def check_sender(pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse what says not clearly where it was sent and who sent it: for servers that read heads by themselves."""
    fields = Fields([], [])
    for name, value in pairs:
        if name in _OF_SENDER:
            _SPECIAL[name](fields, value)


def is_host(text: bytes) -> bool:
    """Whether it can stand in Host."""
    return _HOST.fullmatch(text) is not None


def _length(fields: Fields, value: bytes) -> None:
    if fields.length is not None or not _LENGTH.fullmatch(value):
        raise BadHead("Content-Length is not one number.")
    fields.length = int(value)


def _coding(fields: Fields, value: bytes) -> None:
    if fields.is_chunked or value.lower() != b"chunked":
        raise BadHead("The only Transfer-Encoding is chunked, once.", 501)
    fields.is_chunked = True


def _host(fields: Fields, value: bytes) -> None:
    if fields.host is not None or not is_host(value):
        raise BadHead("Host is not one host.")
    fields.host = value.lower()


def _connection(fields: Fields, value: bytes) -> None:
    fields.connection += tuple(name for part in value.lower().split(b",") if (name := part.strip(b" \t")))


def _upgrade(fields: Fields, value: bytes) -> None:
    fields.upgrade = b"," if fields.upgrade else value.lower()  # several: none that we know


def _expect(fields: Fields, value: bytes) -> None:
    fields.expect = b"," if fields.expect else value.lower()


def _authorization(fields: Fields, _value: bytes) -> None:
    if fields.has_authorization:  # which of them counts is not agreed
        raise BadHead("Authorization is given more than once.")
    fields.has_authorization = True


def _claim(fields: Fields, _value: bytes) -> None:
    fields.has_claims = True


def _dest(fields: Fields, value: bytes) -> None:
    fields.is_page = value == b"document"


_SPECIAL: dict[bytes, Handler] = {
    b"content-length": _length,
    b"transfer-encoding": _coding,
    b"host": _host,
    b"connection": _connection,
    b"upgrade": _upgrade,
    b"expect": _expect,
    b"authorization": _authorization,
    b"sec-fetch-dest": _dest,
}


def _origin_form(method: bytes, target: bytes, fields: Fields) -> bytes:
    """Path and query of a target that names a host too, if that is the one it was sent to."""
    matched = _ABSOLUTE.fullmatch(target)
    if matched is None or method == b"CONNECT":
        raise BadHead("The target of the request is not a path.")
    host, rest = matched.groups()
    if fields.host is not None and host.lower() != fields.host:
        raise BadHead("The target and Host name different hosts.")
    if fields.host is None:
        _host(fields, host)
    return rest if rest.startswith(b"/") else b"/" + rest
