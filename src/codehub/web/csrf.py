"""Where a request comes from: its address, the origin it was sent to, whether another site made the browser send it.

`X-Forwarded-*` is believed of trusted proxies, and of whoever comes over a unix socket: that is our own proxy.
"""

from starlette.requests import HTTPConnection

from codehub.config import AccountConfig
from codehub.errors import NotAllowed
from codehub.web import crossing, forwarded
from codehub.web.proxy.heads import is_host

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})  # none: the person typed it; "same-site" may be a workspace
_WEBSOCKET_SCHEMES = {"ws": "http", "wss": "https"}


def client_address(connection: HTTPConnection, config: AccountConfig) -> str | None:
    """The peer's; behind trusted proxies the nearest address that is not one of them."""
    if forwarded.is_our_proxy(connection.scope):
        hops = connection.headers.getlist("x-forwarded-for")
        return forwarded.address(forwarded.last(",".join(hops)))
    return forwarded.client_of(_peer(connection), connection.headers.raw, forwarded.networks(config.trusted_proxies))


def own_origin(connection: HTTPConnection, config: AccountConfig) -> str:
    """The origin browsers know us by, as `https://host`."""
    if config.public_url is not None:
        return config.public_url
    return "{}://{}".format(*_sent_to(connection, config))


def authority(connection: HTTPConnection, config: AccountConfig) -> str:
    """The host, perhaps with a port, that this very request was sent to: ours or a workspace's own."""
    return _sent_to(connection, config)[1]


def _sent_to(connection: HTTPConnection, config: AccountConfig) -> tuple[str, str]:
    scheme = _WEBSOCKET_SCHEMES.get(connection.url.scheme, connection.url.scheme)
    host = connection.headers.get("host", "")
    if forwarded.is_our_proxy(connection.scope) or forwarded.is_trusted(
        _peer(connection), forwarded.networks(config.trusted_proxies)
    ):
        scheme = forwarded.last(connection.headers.get("x-forwarded-proto")) or scheme
        named = forwarded.last(connection.headers.get("x-forwarded-host"))
        host = named if is_host(named.encode("latin-1")) else host
    return scheme.lower(), host.lower()


def is_secure(connection: HTTPConnection, config: AccountConfig) -> bool:
    return own_origin(connection, config).startswith("https://")


def check_same_origin(connection: HTTPConnection, config: AccountConfig) -> None:
    """Refuse what another site made a browser send (ADR 7). With neither header it is no browser."""
    site = connection.headers.get("sec-fetch-site")
    origin = connection.headers.get("origin")
    if site is not None:
        ours = site in _OWN_SITES
    elif origin is not None:
        ours = _without_default_port(origin.lower()) == _without_default_port(own_origin(connection, config))
    else:
        ours = True
    if not ours:
        raise NotAllowed(
            "The request was sent by another site.",
            "If this is CodeHub's own page, set CODEHUB_PUBLIC_URL to its address.",
            code="cross_site",
        )
    if crossing.is_report(connection.headers.get("sec-fetch-dest"), connection.headers.get("content-type")):
        raise NotAllowed("A browser's report is nobody's request.", code="cross_site")


def check_asked_for(connection: HTTPConnection) -> None:
    """Refuse to be a part of a page: nothing of the API is, so a page that names it is not ours."""
    is_api = connection.scope["path"].startswith("/api/")
    if is_api and crossing.is_part_of_a_page(connection.headers.get("sec-fetch-dest")):
        raise NotAllowed("The API answers scripts and people, not parts of pages.", code="cross_site")


def _peer(connection: HTTPConnection) -> str | None:
    return connection.client.host if connection.client else None


def _without_default_port(origin: str) -> str:
    scheme = origin.partition(":")[0]
    return origin.removesuffix({"http": ":80", "https": ":443"}.get(scheme, ""))
