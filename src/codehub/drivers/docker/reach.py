"""How storage jobs get to the archive store, and to nothing else: one folder, one address and port, or one port.

A store on this machine's loopback is the exception: no network of containers leads there, so its jobs share the
machine's own network. That is said (`sentence`), since such a job could reach every other service there too.
"""

import asyncio
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from codehub.drivers.docker.firewall import StoreAccess
from codehub.drivers.docker.options import DockerOptions
from codehub.drivers.storage_jobs import Urls
from codehub.errors import Unreachable


@dataclass(frozen=True, slots=True)
class Reach:
    """How a job gets to the store: a folder to mount, or a network and what is allowed on it."""

    network: str
    folder: str | None = None
    access: StoreAccess | None = None
    endpoint: str = ""

    @property
    def sentence(self) -> str:
        """For people."""
        if self.folder is not None:
            return "Storage jobs have no network, and see one archive's folder each."
        if self.access is None:
            return (
                f"WARNING: storage jobs share this machine's network, because the archive store {self.endpoint} is on"
                " its loopback, where no container network leads: a job that was taken over could reach every service"
                " here. Let the store listen on another address of this machine, and they will reach it alone."
            )
        if self.access.addresses:
            return f"Storage jobs reach the archive store {self.endpoint} and nothing else."
        return f"Storage jobs reach port {self.access.port} of the internet, where the archive store is, and no more."


async def reach_of(urls: Urls, options: DockerOptions) -> Reach:
    """Raises Unreachable while the store's name cannot be resolved."""
    parts = urlsplit(urls.archive_url)
    if parts.scheme == "file":
        return Reach("none", folder=str(PurePosixPath(unquote(parts.path)).parent))
    text = str(urls.store.get("endpoint") or "")
    endpoint = urlsplit(text)
    if endpoint.hostname is None:
        return Reach(options.job_network, access=StoreAccess(port=443))
    port = endpoint.port or (80 if endpoint.scheme == "http" else 443)
    addresses = await addresses_of(endpoint.hostname, port)
    if any(address.is_loopback for address in addresses):
        return Reach("host", endpoint=text)
    if all(address.is_global for address in addresses):
        return Reach(options.job_network, access=StoreAccess(port), endpoint=text)  # they change while a job runs
    return Reach(options.job_network, access=StoreAccess(port, tuple(sorted(map(str, addresses)))), endpoint=text)


async def addresses_of(host: str, port: int) -> set[IPv4Address | IPv6Address]:
    """Networks of jobs speak IPv4."""
    try:
        address = ip_address(host)
    except ValueError:
        pass
    else:
        if address.version == 6 and not address.is_loopback:
            raise Unreachable(f"Storage jobs cannot reach the archive store at [{host}].", "Name an IPv4 address.")
        return {address}
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET)
    except OSError as error:
        raise Unreachable(f"The archive store's name {host} cannot be resolved: {error}.") from error
    return {IPv4Address(address[0]) for *_, address in found}


def make_folder(folder: Path) -> None:
    """The engine mounts no folder that is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unreachable(f"The archive folder {folder} cannot be made: {error.strerror}.") from error
