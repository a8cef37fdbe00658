"""What a head becomes on its way: pure functions from the one reading to the bytes that are sent on.

Towards a workspace: none of our cookies, no Authorization, nothing that claims to come from a proxy but our own words.
From a workspace: no cookie that could reach the control plane or another workspace, no header that speaks for the whole
origin or for the connection. The API process gets credentials, and its answers pass as they are.
"""

from codehub.web.cookies import OURS
from codehub.web.proxy.heads import Fields, RequestHead, ResponseHead
from codehub.web.proxy.ports import Request, Route

_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te transfer-encoding upgrade "
    b"http2-settings".split()
)
_WRITTEN_ANEW = frozenset(b"host content-length".split())
_CLAIMS = frozenset(b"forwarded x-real-ip".split())  # and x-forwarded-*, x-codehub-*
_WEBSOCKET = b"sec-websocket-"
# Of the connection, or of more than the workspace: its registrable domain, other ports, everything that is stored.
_NOT_A_WORKSPACES = frozenset(
    b"alt-svc clear-site-data nel report-to strict-transport-security set-login public-key-pins".split()
)
_NOT_ON_A_SHARED_ORIGIN = _NOT_A_WORKSPACES | frozenset(
    b"service-worker-allowed origin-agent-cluster accept-ch critical-ch reporting-endpoints speculation-rules".split()
)
# Fields that say where a message goes, how long it is, who sent it: never after the fact.
_NO_TRAILERS = (
    _HOP
    | _WRITTEN_ANEW
    | _CLAIMS
    | _NOT_ON_A_SHARED_ORIGIN
    | frozenset(
        b"authorization cookie set-cookie location trailer content-type content-encoding content-range cache-control "
        b"expect range vary www-authenticate".split()
    )
)
_OURS = frozenset(name.encode().lower() for name in OURS)
_RESERVED = (b"codehub_", b"__host-codehub_", b"__secure-codehub_")


def request_bytes(head: RequestHead, request: Request, route: Route) -> bytes:
    """The head to send to the route's upstream."""
    target = head.target
    if route.strip:
        target = target[len(route.strip) :]
        if not target.startswith(b"/"):
            target = b"/" + target
    return b"%b %b HTTP/1.1\r\n%b" % (head.method, target, request_fields(head.fields, request, route))


def request_fields(fields: Fields, request: Request, route: Route) -> bytes:
    """The fields to send, and the empty line."""
    is_workspace = route.workspace is not None
    dropped = _HOP.union(fields.connection) if fields.connection else _HOP
    out = [b"host: %b\r\n" % request.host]
    for name, value in fields.pairs:
        if name in dropped or name in _WRITTEN_ANEW or _is_claim(name):
            continue
        if is_workspace:
            if name == b"authorization":
                continue
            if name == b"cookie":
                value = _without_ours(value)  # noqa: PLW2901
                if not value:
                    continue
        elif name.startswith(_WEBSOCKET):
            continue
        out.append(b"%b: %b\r\n" % (name, value))
    if fields.is_chunked:
        out.append(b"transfer-encoding: chunked\r\n")
    elif fields.length is not None:
        out.append(b"content-length: %d\r\n" % fields.length)
    if request.is_upgrade and is_workspace:
        out.append(b"connection: Upgrade\r\nupgrade: websocket\r\n")
    scheme = b"https" if request.is_secure else b"http"
    out.append(
        b"x-forwarded-for: %b\r\nx-forwarded-host: %b\r\nx-forwarded-proto: %b\r\n"
        % (request.peer.encode(), request.host, scheme)
    )
    if route.strip:
        out.append(b"x-forwarded-prefix: %b\r\n" % route.strip)
    out += [b"%b: %b\r\n" % pair for pair in route.headers]
    out.append(b"\r\n")
    return b"".join(out)


def response_fields(head: ResponseHead, request: Request, route: Route) -> bytes:
    """The fields to answer with; what frames the body and ends the head is the caller's to add."""
    fields = head.fields
    dropped = _HOP.union(fields.connection) if fields.connection else _HOP
    if route.workspace is not None:
        return _from_workspace(fields, request, route, dropped)
    return b"".join(
        [b"%b: %b\r\n" % pair for pair in fields.pairs if pair[0] not in dropped and pair[0] not in _WRITTEN_ANEW]
    )


def _from_workspace(fields: Fields, request: Request, route: Route, dropped: frozenset[bytes]) -> bytes:
    out = []
    refused = _NOT_ON_A_SHARED_ORIGIN if route.strip else _NOT_A_WORKSPACES
    for name, value in fields.pairs:
        if name in dropped or name in refused or name in _WRITTEN_ANEW or name.startswith(b"x-codehub-"):
            continue
        if name == b"set-cookie":
            cookie = confined(value, route)
            if cookie is None:
                continue
            value = cookie  # noqa: PLW2901
        elif name == b"location" and route.strip:
            value = located(value, request, route)  # noqa: PLW2901
        out.append(b"%b: %b\r\n" % (name, value))
    return b"".join(out)


def trailers(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Those that may come after a body."""
    return b"".join([b"%b: %b\r\n" % pair for pair in pairs if pair[0] not in _NO_TRAILERS and not _is_claim(pair[0])])


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
    origin = origin_of(request)
    if location.lower().startswith(origin + b"/"):
        return origin + located(location[len(origin) :], request, route)
    if not location.startswith(b"/") or location.startswith((b"//", b"/\\")):
        return location
    if location == route.strip or location.startswith((route.strip + b"/", route.strip + b"?")):
        return location
    return route.strip + location


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
    if path.startswith(base) or not path.startswith(b"/"):
        return path if path.startswith(base) else base
    return base.removesuffix(b"/") + path if route.strip else base


def _without_ours(cookies: bytes) -> bytes:
    if b"codehub_" not in cookies.lower():
        return cookies
    pairs = [pair.strip(b" \t") for pair in cookies.split(b";")]
    return b"; ".join([pair for pair in pairs if pair and not _is_ours(pair.partition(b"=")[0].strip(b" \t").lower())])


def _is_ours(name: bytes) -> bool:
    return name in _OURS or name.startswith(_RESERVED)


def _is_claim(name: bytes) -> bool:
    if b"_" in name:  # some servers take both for the same
        name = name.replace(b"_", b"-")
    return name in _CLAIMS or name.startswith((b"x-forwarded-", b"x-codehub-"))
