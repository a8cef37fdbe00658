"""What is around workspaces in these tests: services of this machine, and a machine beyond it."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import httpx

from codehub.drivers.docker import DockerOptions
from tests.lab.docker import Lab
from tests.support import eventually, needs_root

INTERNET, LINK_LOCAL, PRIVATE = "203.0.113.77", "169.254.77.77", "10.254.77.77"
METADATA = "169.254.169.254"
PORT = 443  # of everything on the machine beyond
_NEAR, _FAR = "198.51.100.1", "198.51.100.2"
_TABLE = "7713"


async def fetch(address: str, host: str, port: int) -> str:
    """What a connection from inside the workspace at `address` meets."""
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return (
            (await client.get(f"http://{address}/fetch", params={"host": host, "port": port})).raise_for_status().text
        )


@contextmanager
def listening(host: str) -> Iterator[int]:
    """A service on this machine: as PostgreSQL, Redis and the Docker API would listen there."""
    with socket.create_server((host, 0), backlog=64) as server:
        port = int(server.getsockname()[1])
        local = "127.0.0.1" if host == "0.0.0.0" else host
        socket.create_connection((local, port), timeout=2).close()
        yield port


def gateway_of(lab: Lab, options: DockerOptions) -> str:
    network = lab.call("GET", f"/networks/{options.network}").json()
    return str(network["IPAM"]["Config"][0]["Gateway"])


def own_address() -> str:
    """An address of this machine that is neither loopback nor a bridge's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((INTERNET, 9))
        return str(probe.getsockname()[0])


@contextmanager
def outside(hosts: Sequence[str], seen_from: Sequence[str] = ()) -> Iterator[None]:
    """A machine beyond this one that has all these addresses and answers at PORT.

    With `seen_from` only what comes from these interfaces gets there: this machine may itself need such an address.
    """
    needs_root("to make a network namespace")
    tag = uuid4().hex[:6]
    space, near, far = f"chtest-{tag}", f"chn{tag}", f"chf{tag}"
    rules = [["iif", interface, "to", host, "lookup", _TABLE] for interface in seen_from for host in hosts]
    routes = [[*(("default", "table", _TABLE) if seen_from else (host,)), "via", _FAR] for host in hosts]
    server = None
    try:
        ip("netns", "add", space)
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        ip("addr", "add", f"{_NEAR}/30", "dev", near)
        ip("link", "set", near, "up")
        for address in (f"{_FAR}/30", *(f"{host}/32" for host in hosts)):
            ip("-n", space, "addr", "add", address, "dev", far)
        ip("-n", space, "link", "set", far, "up")
        ip("-n", space, "route", "add", "default", "via", _NEAR)
        for route in routes:
            ip("route", "replace", *route)
        for rule in rules:
            ip("rule", "add", *rule)
        server = _serving(space)
        eventually(lambda: connects(_FAR, PORT), "the machine beyond answers")
        yield
    finally:
        if server is not None:
            server.kill()
            server.communicate()
        for rule in rules:
            subprocess.run(["ip", "rule", "delete", *rule], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "delete", space], check=False)
        subprocess.run(["ip", "link", "delete", near], check=False, stderr=subprocess.DEVNULL)


def _serving(space: str) -> subprocess.Popen[bytes]:
    serve = f"import socket; s = socket.create_server(('0.0.0.0', {PORT}))\nwhile True: s.accept()[0].close()"
    return subprocess.Popen(["ip", "netns", "exec", space, sys.executable, "-c", serve])


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True
