"""The one way out of a workspace that has no network: an HTTP proxy that refuses everything but the public internet.

    egress.py [--allow NETWORK]… [--deny NETWORK]… [--open HOST:PORT]… --leash NUMBER
        serve the unix socket inherited as descriptor 3

It runs outside the workspace's sandbox, in one of its own that has a network and no files. CONNECT (TLS, git, anything
over TCP) and plain http:// are served. Names are looked up here, and the address that was judged is the one dialled.
Never reached: this machine under any of its addresses, private and link-local networks, and the clouds' metadata.
What is refused is told in the status line itself, with the setting that opens it: pip and others print that line, and
carry.py notes it for the terminal of those that do not (curl, git).
It ends when the workspace does, which holds one connection (the leash) for as long as it lives. It is started when
that is not the only connection any more (../launch.py).
"""

import argparse
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

INHERITED = 3
_CHUNK_BYTES = 1 << 17
_HEAD_BYTES = 1 << 16
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 15.0
_MOST_CONNECTIONS = 512
# Public by number, yet each answers only the machine that asks: Azure's and Oracle's; IPv4 in IPv6 clothes; local.
_NEVER = tuple(
    ip_network(text)
    for text in (
        *("168.63.129.16/32", "192.0.0.0/24"),
        *("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fec0::/10"),
    )
)


class Refused(Exception):
    """Answered with a status and one line for people."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__("".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in why))
        self.status = status


@dataclass(frozen=True)
class Policy:
    """Which addresses may be dialled."""

    allow: Sequence[Network] = ()
    deny: Sequence[Network] = ()
    hosts: Sequence[str] = ()  # HOST:PORT, wherever they are: what a setting names, such as the package index

    def permits(self, address: Address) -> bool:
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if _is_in(address, self.deny):
            return False
        if _is_in(address, self.allow):
            return True
        return address.is_global and not address.is_multicast and not _is_in(address, _NEVER)


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


async def dial(host: str, port: int, policy: Policy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to an address that the policy permits."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        raise Refused(HTTPStatus.BAD_GATEWAY, f"the name {host} cannot be looked up") from None
    is_open = f"{host}:{port}" in policy.hosts
    permitted = [entry[4] for entry in found if is_open or policy.permits(_address_of(entry[4]))]
    if not permitted:
        raise Refused(HTTPStatus.FORBIDDEN, _refusal(host, _address_of(found[0][4]), policy))
    for address in permitted:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(str(address[0]), port, limit=_CHUNK_BYTES)
            if not is_open and _is_this_machine(writer, policy):
                writer.close()
                raise Refused(HTTPStatus.FORBIDDEN, f"{host} is this machine; {_opened_by(_address_of(address))}")
            return reader, writer
    raise Refused(HTTPStatus.BAD_GATEWAY, f"{host} does not answer on port {port}")


def _address_of(found: tuple[object, ...]) -> Address:
    return ip_address(str(found[0]).partition("%")[0])


def _refusal(host: str, address: Address, policy: Policy) -> str:
    if _is_in(address, policy.deny):
        return f"{host} ({address}) is in a network that the administrator closed (PROCESS_DENY)"
    where = "" if host == str(address) else f" ({address})"
    return f"{host}{where} is not on the public internet; {_opened_by(address)}"


def _opened_by(address: Address) -> str:
    return f"the administrator can allow it with PROCESS_ALLOW={address}/{address.max_prefixlen}"


def _is_this_machine(writer: asyncio.StreamWriter, policy: Policy) -> bool:
    """Whoever dials himself, by whatever public address, has it at both ends."""
    here, there = (str(writer.get_extra_info(name)[0]) for name in ("sockname", "peername"))
    return here == there and not _is_in(ip_address(there.partition("%")[0]), policy.allow)


@dataclass(frozen=True)
class Request:
    """Where to, and what to say there first."""

    host: str
    port: int
    opening: bytes | None  # None: the client wants a tunnel


def parse(head: bytes) -> Request:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        raise Refused(HTTPStatus.BAD_REQUEST, "this is no request")
    method, target, version = words
    try:
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = url.hostname, url.port or (0 if method == "CONNECT" else 80)
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, "this is no address") from None
    if not host or not port or (method != "CONNECT" and url.scheme != "http"):
        raise Refused(HTTPStatus.BAD_REQUEST, "only CONNECT and http:// are served")
    if method == "CONNECT":
        return Request(host, port, None)
    path = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
    kept = [line for line in lines[1:] if line and line.partition(":")[0].lower() not in _OURS]
    return Request(
        host, port, "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""]).encode("latin-1")
    )


_OURS = ("connection", "proxy-connection", "proxy-authorization", "keep-alive")


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def let_go(leash: socket.socket) -> None:
    """Return when the workspace has ended. Whatever it may say on the leash is of no interest."""
    reader, _writer = await asyncio.open_unix_connection(sock=leash)
    with contextlib.suppress(OSError):
        while await reader.read(_CHUNK_BYTES):
            pass


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, policy: Policy) -> None:
    far: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        request = parse(head)
        far_reader, far = await dial(request.host, request.port, policy)
        if request.opening is None:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far.write(request.opening)
        async with asyncio.TaskGroup() as both:
            both.create_task(pass_on(reader, far))
            both.create_task(pass_on(far_reader, writer))
    except Refused as error:
        body = f"{error}\n".encode()
        fields = f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 {error.status.value} {error}\r\n{fields}\r\n\r\n".encode() + body)
        print(f"{error.status.value}: {error}", flush=True)  # noqa: T201 - its log is the workspace's
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ExceptionGroup):
        pass  # one side has gone: so is the connection
    finally:
        for side in (far, writer):
            if side is not None:
                side.close()


async def main(policy: Policy, leash: socket.socket) -> None:
    free = asyncio.Semaphore(_MOST_CONNECTIONS)

    served: set[asyncio.Task[None] | None] = set()  # nobody else holds a half-closed one: it would be garbage

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        async with free:
            await serve(reader, writer, policy)
        served.discard(asyncio.current_task())

    listener = socket.socket(fileno=INHERITED)
    await asyncio.start_unix_server(one, sock=listener, limit=_HEAD_BYTES)
    await let_go(leash)
    os._exit(0)  # whatever is still being passed on has nobody at its other end


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    for name in ("--allow", "--deny"):
        options.add_argument(name, type=ip_network, action="append", default=[])
    options.add_argument("--open", action="append", default=[])
    options.add_argument("--leash", type=int, required=True)
    given = options.parse_args(sys.argv[1:])
    asyncio.run(main(Policy(given.allow, given.deny, given.open), socket.socket(fileno=given.leash)))
