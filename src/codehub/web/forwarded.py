"""Whose words about a client are believed: `X-Forwarded-*` of trusted proxies; anybody else could write anything there.

One rule for the proxy and for the API process behind it.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

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
    """The peer's address; behind trusted proxies the nearest that is not one of them."""
    client = address(peer)
    if not is_trusted(peer, trusted):
        return client
    hops = [hop.strip() for header in forwarded_for for hop in header.split(",")]
    for hop in reversed(hops):
        client = address(hop) or client
        if not is_trusted(hop, trusted):
            break
    return client


def last(header: str | None) -> str:
    """What the nearest proxy said."""
    return (header or "").rpartition(",")[2].strip()
