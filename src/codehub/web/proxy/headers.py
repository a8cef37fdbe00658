"""What a head becomes on its way: pure functions from the one reading to the bytes that are sent on.

Towards a workspace: none of our cookies, no Authorization, nothing that claims to come from a proxy but our own words.
From a workspace: no cookie that could reach the control plane or another workspace, no header that speaks for the whole
origin or for the connection. The API process gets credentials, and its answers pass as they are.
"""

from codehub.web.cookies import OURS
from codehub.web.proxy.confining import confined_redirect, without_reports
from codehub.web.proxy.heads import Fields, ResponseHead
from codehub.web.proxy.menu import NOT_ASKED
from codehub.web.proxy.names import (
    CREDENTIALS,
    HOP,
    LOGIN,
    NOT_A_WORKSPACES,
    NOT_ON_A_SHARED_ORIGIN,
    POLICY,
    REPORTED_POLICY,
    REQUEST_ID,
    USUAL_OPTIONS,
    WEBSOCKET,
    WRITTEN_ANEW,
    is_claim,
    is_trailer,
)
from codehub.web.proxy.ports import Request, Route

_OURS = frozenset(name.encode().lower() for name in OURS)
_RESERVED = (b"codehub_", b"__host-codehub_", b"__secure-codehub_")


def sent_target(target: bytes, route: Route) -> bytes:
    """The path and query as the other end knows them."""
    if not route.strip:
        return target
    target = target[len(route.strip) :]
    return target if target.startswith(b"/") else b"/" + target


def request_fields(fields: Fields, request: Request, route: Route) -> bytes:
    """The fields to send, and the empty line."""
    is_workspace = route.workspace is not None
    named = _named(fields)
    if route.tail and fields.is_page:
        named |= NOT_ASKED
    out = [b"host: %b\r\n" % request.host]
    for pair, line in zip(fields.pairs, fields.lines, strict=True):
        if line is None:
            line = _to_workspace(pair) if is_workspace else _to_api(pair, request)  # noqa: PLW2901 - the last word
        if line is not None and not (named and pair[0] in named):
            out.append(line)
    if fields.is_chunked:
        out.append(b"transfer-encoding: chunked\r\n")
    elif fields.length is not None:
        out.append(b"content-length: %d\r\n" % fields.length)
    if request.is_upgrade and is_workspace:
        out.append(b"connection: Upgrade\r\nupgrade: websocket\r\n")
    out.append(
        b"x-forwarded-for: %b\r\nx-forwarded-host: %b\r\nx-forwarded-proto: %b\r\n"
        % (request.peer.encode(), request.host, b"https" if request.is_secure else b"http")
    )
    if route.strip:
        out.append(b"x-forwarded-prefix: %b\r\n" % route.strip)
    out += map(_line, route.headers)
    out.append(b"\r\n")
    return b"".join(out)


def _to_workspace(pair: tuple[bytes, bytes]) -> bytes | None:
    """A field of a request that is not simply passed on."""
    name, value = pair
    if name == b"cookie":
        value = _without_ours(value)
        return b"cookie: %b\r\n" % value if value else None
    return None if name in HOP or name in WRITTEN_ANEW or name in CREDENTIALS or is_claim(name) else _line(pair)


def _to_api(pair: tuple[bytes, bytes], request: Request) -> bytes | None:
    """It has no WebSockets, and gets what people log in with."""
    name = pair[0]
    if name == REQUEST_ID and not request.is_from_proxy:
        return None
    return None if name in HOP or name in WRITTEN_ANEW or name.startswith(WEBSOCKET) or is_claim(name) else _line(pair)


def _line(pair: tuple[bytes, bytes]) -> bytes:
    return b"%b: %b\r\n" % pair


def response_fields(head: ResponseHead, request: Request, route: Route) -> bytes:
    """The fields to answer with; what frames the body and ends the head is the caller's to add."""
    if head.sent is not None and head.sent[0] is route:
        return head.sent[1]
    fields = head.fields
    named = _named(fields)
    out = []
    for pair, line in zip(fields.pairs, fields.lines, strict=True):
        if line is None:
            line = _from_upstream(pair, request, route)  # noqa: PLW2901 - the last word
        if line is not None and not (named and pair[0] in named):
            out.append(line)
    if route.policy:
        out.append(route.policy)
    sent = b"".join(out)
    if not route.strip or not any(name == b"location" for name, _ in fields.pairs):  # that depends on the request
        head.sent = (route, sent)
    return sent


def _from_upstream(pair: tuple[bytes, bytes], request: Request, route: Route) -> bytes | None:
    """A field of a response that is not simply passed on: as it is, in other words, or not at all."""
    name, value = pair
    if name in HOP or name in WRITTEN_ANEW or name == LOGIN:
        return None
    if route.workspace is not None:
        if name in (NOT_ON_A_SHARED_ORIGIN if route.strip else NOT_A_WORKSPACES) or name.startswith(b"x-codehub-"):
            return None
        if name == b"set-cookie":
            cookie = confined(value, route)
            return None if cookie is None else b"set-cookie: %b\r\n" % cookie
        if name == b"location" and route.strip:
            value = located(value, request, route)
        if route.policy and name in (POLICY, REPORTED_POLICY):
            value = without_reports(value) if name == POLICY else b""
            if not value.strip():
                return None
    return _line((name, value))


def _named(fields: Fields) -> frozenset[bytes]:
    """Fields that the Connection field says are of this connection only, beside those that are so anyway."""
    if not fields.connection or USUAL_OPTIONS.issuperset(fields.connection):
        return frozenset()
    return frozenset(fields.connection)


def trailers(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Those that may come after a body."""
    return b"".join([_line(pair) for pair in pairs if is_trailer(pair[0])])


def confined(cookie: bytes, route: Route) -> bytes | None:
    """A workspace's Set-Cookie, for its own host and below its own path; None if it may not be set at all."""
    first, *attributes = [part.strip(b" \t") for part in cookie.split(b";")]
    name, equals, _ = first.partition(b"=")
    name = name.strip(b" \t").lower()
    # Without a name the value alone is sent back, and may then read as "name=value".
    if not name or not equals or _is_ours(name):
        return None
    is_shared = route.cookie_path != b"/"
    if is_shared and name.startswith(b"__host-"):
        return None  # means the whole host
    path = None
    kept = [first]
    for attribute in attributes:
        key, _, value = attribute.partition(b"=")
        key = key.strip(b" \t").lower()
        if key == b"path":
            path = value.strip(b" \t")
        elif key != b"domain":
            kept.append(attribute)
    if is_shared:
        path = _below(path or b"/", route)
    if path is not None:
        kept.append(b"Path=" + path)
    return b"; ".join(kept)


def located(location: bytes, request: Request, route: Route) -> bytes:
    """A redirect to a path of a workspace that does not know the prefix it is seen under."""
    return confined_redirect(location, request.target, request.host, route.strip, is_guarded=bool(route.policy))


def origin_of(request: Request) -> bytes:
    """The origin the request was sent to."""
    return (b"https://" if request.is_secure else b"http://") + request.host


def is_own_origin(request: Request) -> bool:
    """Whether a WebSocket may be opened: by a page of the very origin it goes to, or by no browser at all."""
    origins = [value for name, value in request.headers if name == b"origin"]
    if not origins:
        return True
    return len(origins) == 1 and _plain(origins[0].lower()) == _plain(origin_of(request))


def _plain(origin: bytes) -> bytes:
    return origin.removesuffix(b":443" if origin.startswith(b"https:") else b":80")


def _below(path: bytes, route: Route) -> bytes:
    """A path as the workspace means it, as the browser sees it."""
    base = route.cookie_path
    if path.startswith(base):
        return path
    if not route.strip or not path.startswith(b"/") or path + b"/" == base:
        return base
    return base.removesuffix(b"/") + path


def _without_ours(cookies: bytes) -> bytes:
    if b"codehub_" not in cookies.lower():
        return cookies
    pairs = [pair.strip(b" \t") for pair in cookies.split(b";")]
    return b"; ".join([pair for pair in pairs if pair and not _is_ours(pair.partition(b"=")[0].strip(b" \t").lower())])


def _is_ours(name: bytes) -> bool:
    return name in _OURS or name.startswith(_RESERVED)
