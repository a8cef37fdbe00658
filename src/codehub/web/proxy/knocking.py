"""Before which door a request stands, from its head alone: which workspace it is for, and what it came with. Pure.

    http://localhost:8080/w/{id}/path    path mode: a session's cookie, or a token
    http://{id}.localhost:8080/path      the workspace's own origin: a visit's cookie, or a token

None is a matter for the API: what is not a workspace's at all, what carries no credential, what another origin's page
sent, and `/.codehub/` below a workspace, which is ours there too.
"""

from dataclasses import dataclass

from codehub.db.doors import Came, Door
from codehub.model.visiting import Destination
from codehub.services.sessions import hash_of
from codehub.services.tokens import PREFIX as TOKEN_PREFIX
from codehub.web import cookies
from codehub.web.crossing import Sent, is_from_elsewhere
from codehub.web.hosts import Hosts, Place
from codehub.web.paths import RESERVED, workspace_in
from codehub.web.proxy.confining import SERVICE_WORKER
from codehub.web.proxy.ports import Request

_LONGEST_SECRET = 200
_SHORT_BYTES = 4096
_DECIDING = frozenset({
    b"cookie", b"authorization", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", SERVICE_WORKER,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Knock:
    """Somebody at a door; `strip` is the part of the path that is ours, and `host` where they see it in path mode."""

    door: Door
    strip: bytes = b""
    host: bytes = b""


def knock_of(request: Request, hosts: Hosts) -> Knock | None:
    """Which door; None when the API is to answer."""
    authority = request.host.decode("latin-1")
    target = request.target.decode("latin-1")
    place = hosts.place_of(authority)
    if place in (Place.NOWHERE, Place.STRANGE) or (place is Place.MAIN and not target.startswith("/w/")):
        return None
    if isinstance(place, Destination):
        return None if target.startswith(RESERVED) else _knock(request, hosts, place, b"")
    if hosts.localhost_for(authority) is not None and _is_navigation(request):
        return None  # a person, who is sent to localhost
    identity = workspace_in(target)
    if identity is None or hosts.authority_for(Destination(identity), authority) is not None:
        return None  # … or an origin of its own is where it is to be visited
    return _knock(request, hosts, Destination(identity), b"/w/%b" % str(identity).encode())


def _is_navigation(request: Request) -> bool:
    return Sent.of(request.method.decode("latin-1"), _headers(request)).is_navigation


def _knock(request: Request, hosts: Hosts, to: Destination, strip: bytes) -> Knock | None:
    headers = _headers(request)
    host = request.host if strip else b""
    token = _token(headers.get("authorization", ""))
    if token is not None:
        return Knock(Door(Came.TOKEN, hash_of(token), to), strip, host)
    came = Came.SESSION if strip else Came.VISIT
    plain, secure = (cookies.PLAIN, cookies.SECURE) if strip else (cookies.VISIT, cookies.SECURE_VISIT)
    is_secure = hosts.is_secure(request.is_secure)
    secret = cookies.only_value(headers.get("cookie", ""), secure if is_secure else plain)
    if secret is None or len(secret) > _LONGEST_SECRET:
        return None
    scheme = "https" if is_secure else "http"
    own = f"{scheme}://{request.host.decode('latin-1')}"
    sent = Sent.of(request.method.decode("latin-1"), headers)
    if is_from_elsewhere(sent, own=own, to=None if strip else to, hosts=hosts):
        return None
    return Knock(Door(came, hash_of(secret), to), strip, host)


def _headers(request: Request) -> dict[str, str]:
    """Those that matter; several cookie headers are one, of any other the last counts."""
    found: dict[str, str] = {}
    for raw, value in request.headers:
        if raw not in _DECIDING:
            continue
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        found[name] = f"{found[name]}; {text}" if name == "cookie" and name in found else text
    return found


def _token(authorization: str) -> str | None:
    """Ours only: a program inside a workspace may have tokens of its own, which are none of our business."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    is_ours = scheme.lower() == "bearer" and token.startswith(TOKEN_PREFIX) and len(token) <= _LONGEST_SECRET
    return token if is_ours else None


_ID_ENDS = len(b"/w/") + 36 + 1


def is_short(request: Request) -> bool:
    """Whether its signature may be kept; a head can be large, and somebody may send many that differ."""
    return sum([len(value) for name, value in request.headers if name in _DECIDING]) <= _SHORT_BYTES


def signature_of(request: Request) -> tuple[object, ...]:
    """Everything that knock_of looks at: heads that agree in this stand before the same door."""
    target = request.target
    is_reserved = target.startswith(b"/.codehub/") or target.startswith(b".codehub/", _ID_ENDS)
    path = target[:_ID_ENDS] if target.startswith(b"/w/") else b""
    deciding = [pair for pair in request.headers if pair[0] in _DECIDING]
    return (request.host, path, is_reserved, request.method, request.is_secure, *deciding)
