"""Whose words about a client are believed."""

import pytest

from codehub.web.forwarded import Networks, client_of, is_our_proxy, networks

TRUSTED = networks(["10.0.0.0/8", "127.0.0.1/32"])


@pytest.mark.parametrize(
    ("peer", "said", "client"),
    [
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),  # not trusted: what it says is nothing
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),  # the nearest that is none of ours
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7:5678"], "10.0.0.1"),  # cannot be read
        ("10.0.0.1", ["127.0.0.1"], "10.0.0.1"),  # within a trusted network one may say anything; not this
        ("10.0.0.1", ["::1"], "10.0.0.1"),
        ("10.0.0.1", ["::ffff:127.0.0.1, 10.0.0.5"], "10.0.0.5"),
        ("127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["198.51.100.7:5678"], None),  # somebody, and surely not this machine
        ("127.0.0.1", [""], None),
        ("127.0.0.1", ["127.0.0.1"], None),
        ("127.0.0.1", ["rubbish, 10.0.0.5"], "10.0.0.5"),
    ],
)
def test_the_client_behind_trusted_proxies(peer: str, said: list[str], client: str | None) -> None:
    assert client_of(peer, [(b"x-forwarded-for", hop.encode()) for hop in said], TRUSTED) == client


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "name", [b"x-forwarded-for", b"forwarded", b"x-real-ip", b"x-forwarded-proto", b"x_forwarded_for"]
)
@pytest.mark.parametrize("trusted", [(), networks(["127.0.0.0/8", "::1/128"])])
def test_whoever_speaks_for_another_is_not_this_machine(peer: str, name: bytes, trusted: Networks) -> None:
    """Trusted or not: a server here that nobody has named in a setting serves the whole internet."""
    assert client_of(peer, [(b"host", b"hub"), (name, b"127.0.0.1")], trusted) is None
    assert client_of(peer, [(b"host", b"hub")], trusted) in ("127.0.0.1", "127.1.2.3", "::1")


def test_whoever_is_elsewhere_stays_there_whatever_they_say() -> None:
    assert client_of("192.0.2.1", [(b"forwarded", b"for=198.51.100.7")], TRUSTED) == "192.0.2.1"


def test_only_a_unix_socket_is_our_proxy() -> None:
    assert is_our_proxy({"client": None, "server": ("/run/api.sock", None)})
    assert not is_our_proxy({"client": ("192.0.2.1", 1), "server": ("10.0.0.1", 8080)})
    assert not is_our_proxy({"client": None, "server": ("10.0.0.1", 8080)}), "one that has hung up has no address"
