"""Where a request comes from: its address, the origin it was sent to, whether another site made the browser send it.

`X-Forwarded-*` is believed from trusted proxies only; anybody else could write anything there.
"""

from ipaddress import ip_address, ip_network

from starlette.requests import HTTPConnection

from codehub.config import AccountConfig
from codehub.errors import NotAllowed

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})  # none: the person typed it; "same-site" may be a workspace
_WEBSOCKET_SCHEMES = {"ws": "http", "wss": "https"}


def client_address(connection: HTTPConnection, config: AccountConfig) -> str | None:
    """The peer's; behind trusted proxies the nearest address that is not one of them."""
    peer = connection.client.host if connection.client else None
    if not is_trusted(peer, config):
        return _address(peer)
    hops = [hop.strip() for header in connection.headers.getlist("x-forwarded-for") for hop in header.split(",")]
    address = _address(peer)
    for hop in reversed(hops):
        address = _address(hop) or address
        if not is_trusted(hop, config):
            break
    return address


def is_trusted(peer: str | None, config: AccountConfig) -> bool:
    address = _address(peer)
    return address is not None and any(ip_address(address) in ip_network(net) for net in config.trusted_proxies)


def own_origin(connection: HTTPConnection, config: AccountConfig) -> str:
    """The origin browsers know us by, as `https://host`."""
    if config.public_url is not None:
        return config.public_url
    scheme = _WEBSOCKET_SCHEMES.get(connection.url.scheme, connection.url.scheme)
    host = connection.headers.get("host", "")
    if is_trusted(connection.client.host if connection.client else None, config):
        scheme = _last(connection.headers.get("x-forwarded-proto")) or scheme
        host = _last(connection.headers.get("x-forwarded-host")) or host
    return f"{scheme}://{host}".lower()


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


def _address(text: str | None) -> str | None:
    try:
        return str(ip_address((text or "").split("%")[0]))
    except ValueError:
        return None


def _last(header: str | None) -> str:
    return (header or "").rpartition(",")[2].strip()


def _without_default_port(origin: str) -> str:
    scheme = origin.partition(":")[0]
    return origin.removesuffix({"http": ":80", "https": ":443"}.get(scheme, ""))
