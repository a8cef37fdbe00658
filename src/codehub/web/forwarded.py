"""Whose words about a client are believed: `X-Forwarded-*` of trusted proxies; anybody else could write anything there.

One rule for the proxy and for the API process behind it.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import Scope

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


def client_of(peer: str | None, forwarded_for: Iterable[str], trusted: Networks) -> str | None:
    """The peer's address; behind trusted proxies the nearest that is not one of them. Rubbish tells nothing.

    Nobody comes from a proxy's own machine by way of another: a hop that says so was made up by whoever is before it.
    And whom a proxy on this machine speaks for is not this machine, whatever it says: None, when that is all we know.
    """
    client = address(peer)
    if not is_trusted(peer, trusted):
        return client
    hops = [hop.strip() for header in forwarded_for for hop in header.split(",")]
    for hop in reversed(hops):
        found = address(hop)
        if found is not None and ip_address(found).is_loopback:
            break
        client = found or client
        if not is_trusted(hop, trusted):
            break
    return None if hops and client is not None and ip_address(client).is_loopback else client


def is_our_proxy(scope: Scope) -> bool:
    """Whether it came over a unix socket; over TCP a client that has hung up has no address either."""
    server = scope.get("server")
    return scope.get("client") is None and server is not None and server[1] is None


def last(header: str | None) -> str:
    """What the nearest proxy said."""
    return (header or "").rpartition(",")[2].strip()
