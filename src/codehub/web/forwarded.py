"""Whose words about a client are believed: `X-Forwarded-*` of trusted proxies; anybody else could write anything there.

One rule for the proxy and for the API process behind it.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import Scope

from codehub.web.proxy.names import is_claim

Networks = Sequence[IPv4Network | IPv6Network]


def networks(texts: Iterable[str]) -> Networks:
    return tuple(ip_network(text) for text in texts)


def address(text: str | None) -> str | None:
    """An address as it is written everywhere, or None if it is none."""
    try:
        found = ip_address((text or "").split("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None  # IPv4, on a socket that takes both
    return str(mapped or found)


def is_trusted(peer: str | None, trusted: Networks) -> bool:
    found = address(peer)
    return found is not None and any(ip_address(found) in network for network in trusted)


def is_here(client: str | None) -> bool:
    """Whether an address, as we write it, is this machine's own."""
    return client is not None and client != "" and ip_address(client).is_loopback


def client_of(peer: str | None, fields: Iterable[tuple[bytes, bytes]], trusted: Networks) -> str | None:
    """The peer's address; behind trusted proxies the nearest that is not one of them. Rubbish tells nothing.

    `fields` are those of the request, names in lower case. Nobody comes from a proxy's own machine by way of another: a
    hop that says so was made up by whoever is before it. And whom a server on this machine speaks for is not this
    machine, whatever it says and whether it is trusted or not: None, when that is all we know.
    """
    pairs = list(fields)
    client = address(peer)
    if is_trusted(peer, trusted):
        headers = [value.decode("latin-1") for name, value in pairs if name == b"x-forwarded-for"]
        for hop in reversed([hop.strip() for header in headers for hop in header.split(",")]):
            found = address(hop)
            if is_here(found):
                break
            client = found or client
            if not is_trusted(hop, trusted):
                break
    return None if is_here(client) and any(is_claim(name) for name, _ in pairs) else client


def is_our_proxy(scope: Scope) -> bool:
    """Whether it came over a unix socket; over TCP a client that has hung up has no address either."""
    server = scope.get("server")
    return scope.get("client") is None and server is not None and server[1] is None


def last(header: str | None) -> str:
    """What the nearest proxy said."""
    return (header or "").rpartition(",")[2].strip()
