"""Reading heads: one strict reading, from which everything that goes on is written anew.

What two readers could take for different things is refused, not repaired: bare CR or LF, folded lines, blanks before a
colon, control characters, lengths given twice or beside a transfer coding, codings other than `chunked`.
"""

import re
from dataclasses import dataclass

_CONTROLS = bytes([*range(9), 11, 12, *range(14, 32), 127])  # CR and LF are counted, a tab is a blank
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_HOST = re.compile(rb"(?:[0-9A-Za-z._~%!$&'()*+,;=\-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
MAX_FIELDS = 128


class BadHead(Exception):
    """What is wrong with a head, and the status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True, eq=False)
class Fields:
    """The fields of a head; names in lower case, in the order they came."""

    pairs: list[tuple[bytes, bytes]]
    length: int | None = None  # of the body, where the head says so
    is_chunked: bool = False
    connection: tuple[bytes, ...] = ()  # what the Connection field names, in lower case
    host: bytes | None = None
    upgrade: bytes = b""
    expect: bytes = b""


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


# The usual names need no check; nobody can add to this.
_USUAL = (
    "accept accept-encoding accept-language accept-ranges access-control-allow-origin age alt-svc authorization "
    "cache-control connection content-disposition content-encoding content-length content-range "
    "content-security-policy content-type cookie cross-origin-opener-policy date dnt etag expect expires forwarded "
    "host if-match if-modified-since if-none-match if-range keep-alive last-modified link location origin pragma "
    "priority range referer referrer-policy sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest "
    "sec-fetch-mode sec-fetch-site sec-fetch-user sec-websocket-accept sec-websocket-extensions sec-websocket-key "
    "sec-websocket-protocol sec-websocket-version server set-cookie strict-transport-security te trailer "
    "transfer-encoding upgrade upgrade-insecure-requests user-agent vary x-content-type-options x-forwarded-for "
    "x-forwarded-host x-forwarded-proto x-frame-options x-real-ip x-requested-with"
)
_KNOWN = {spelling: spelling.lower() for spelling in (_USUAL + " " + _USUAL.title()).encode().split()}


def read_request(head: bytes, known: dict[bytes, Fields] | None = None) -> RequestHead:
    """A request's head, without the empty line that ends it.

    `known` holds blocks of fields that were read before: browsers repeat theirs, and the same bytes mean the same.
    """
    line, _, block = head.partition(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(line)
    if matched is None:
        raise BadHead("The request line is not one of HTTP/1.1.")
    method, target, minor = matched.groups()
    fields = known.get(block) if known is not None else None
    if fields is None:
        fields = read_fields(block)
        if known is not None:
            known.clear()
            known[block] = fields
    if minor == b"1":
        if fields.host is None:
            raise BadHead("The request has no Host.")
    elif fields.is_chunked:
        raise BadHead("HTTP/1.0 has no transfer codings.")
    if target[0] != 47 or b"#" in target:  # 47 is "/"
        target = _origin_form(method, target, fields)
    return RequestHead(method, target, 1 if minor == b"1" else 0, fields)


def read_response(head: bytes) -> ResponseHead:
    """A response's head, without the empty line that ends it."""
    line, _, block = head.partition(b"\r\n")
    matched = _STATUS_LINE.fullmatch(line)
    if matched is None:
        raise BadHead("The status line is not one of HTTP/1.1.", 502)
    minor, status, _ = matched.groups()
    try:
        return ResponseHead(int(status), line[9:], 1 if minor == b"1" else 0, read_fields(block))
    except BadHead as bad:
        raise BadHead(str(bad), 502) from None


def read_fields(block: bytes) -> Fields:
    """Lines of fields, without the line end of the last."""
    pairs: list[tuple[bytes, bytes]] = []
    fields = Fields(pairs)
    if not block:
        return fields
    lines = block.split(b"\r\n")
    ends = len(lines) - 1
    if block.count(b"\n") != ends or block.count(b"\r") != ends:
        raise BadHead("A line of the head ends in a bare CR or LF.")
    if ends >= MAX_FIELDS:
        raise BadHead("The head has too many fields.", 431)
    if len(block.translate(None, _CONTROLS)) != len(block):
        raise BadHead("The head has control characters in it.")
    known = _KNOWN
    special = _SPECIAL
    for line in lines:
        raw, colon, value = line.partition(b":")
        name = known.get(raw)
        if name is None:
            if not colon or not raw or raw.translate(None, _TOKEN):
                raise BadHead("A line of the head is not a name, a colon and a value.")
            name = raw.lower()
        elif not colon:
            raise BadHead("A line of the head is not a name, a colon and a value.")
        value = value.strip(b" \t")
        pairs.append((name, value))
        if name in special:
            special[name](fields, value)
    if fields.is_chunked and fields.length is not None:
        raise BadHead("The head has both a Content-Length and a Transfer-Encoding.")
    return fields


def _length(fields: Fields, value: bytes) -> None:
    if fields.length is not None or not _LENGTH.fullmatch(value):
        raise BadHead("Content-Length is not one number.")
    fields.length = int(value)


def _coding(fields: Fields, value: bytes) -> None:
    if fields.is_chunked or value.lower() != b"chunked":
        raise BadHead("The only Transfer-Encoding is chunked, once.", 501)
    fields.is_chunked = True


def _host(fields: Fields, value: bytes) -> None:
    if fields.host is not None or not _HOST.fullmatch(value):
        raise BadHead("Host is not one host.")
    fields.host = value.lower()


def _connection(fields: Fields, value: bytes) -> None:
    fields.connection += tuple(name for part in value.lower().split(b",") if (name := part.strip(b" \t")))


def _upgrade(fields: Fields, value: bytes) -> None:
    fields.upgrade = b"," if fields.upgrade else value.lower()  # several: none that we know


def _expect(fields: Fields, value: bytes) -> None:
    fields.expect = b"," if fields.expect else value.lower()


_SPECIAL = {
    b"content-length": _length,
    b"transfer-encoding": _coding,
    b"host": _host,
    b"connection": _connection,
    b"upgrade": _upgrade,
    b"expect": _expect,
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
