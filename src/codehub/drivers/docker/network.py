"""The network that workspaces are on, and the proof that it separates them.

Everything is done through the engine, so it works without being root here, on a remote engine and on a rootless one:
the firewall is put up by a short-lived container in the engine's own network namespace. It is verified by reading it
back from the kernel, again after every outage of the engine and every few minutes, and nothing is started while it is
not in force (`require_isolation`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, ip_address
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from codehub.drivers.docker import firewall, seen, spec
from codehub.drivers.docker.addresses import Addresses
from codehub.drivers.docker.api import Engine, EngineError, none_if_missing
from codehub.drivers.docker.options import DockerOptions, Outbound
from codehub.drivers.docker.reach import Reach
from codehub.errors import ActionFailed, DriverError, Unreachable

_GUARD_SECONDS = 60.0

log = structlog.get_logger()

_RESOLV_CONF = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))


class WorkspaceNetwork:
    """Two bridges, one for workspaces and one for jobs, and one firewall table."""

    def __init__(self, engine: Engine, options: DockerOptions, store: Callable[[], Awaitable[Reach]]) -> None:
        self._engine = engine
        self._options = options
        self._store = store
        self._addresses = Addresses()
        self._lock = asyncio.Lock()
        self._believed_until = 0.0
        self._loaded = ""
        self._reach: Reach | None = None  # of storage jobs, as it was last found
        self._trouble: str | None = "nothing was checked yet"

    def doubt(self) -> None:
        """The engine was away: what was verified before counts no more."""
        self._believed_until = 0.0

    async def ensure(self) -> None:
        """Return once networks and firewall are in force; ActionFailed if they are not and must be."""
        async with self._lock:
            # A store whose name cannot be resolved now keeps no workspace from starting.
            with suppress(Unreachable):
                self._reach = await self._store()
            access = self._reach.access if self._reach else None
            wanted = firewall.rules(self._options, name_servers(self._options), access)
            if time.monotonic() < self._believed_until and wanted == self._loaded:
                return
            try:
                await self._put_up(wanted)
            except Unreachable:
                raise
            except DriverError as error:
                self._trouble = error.message
                log.warning("workspaces are not isolated", why=error.message)
                if self._options.require_isolation:
                    raise
                return
            self._trouble, self._loaded = None, wanted
            self._believed_until = time.monotonic() + self._options.recheck_seconds

    async def address(self) -> str:
        """For one more workspace; not one that another has just had."""
        found = await none_if_missing(self._engine.get(f"/networks/{self._options.network}"))
        if found is None:
            self.doubt()
            raise ActionFailed(f"The network {self._options.network} went away.")
        subnet = subnet_of(found)
        used = (entry.get("IPv4Address", "").partition("/")[0] for entry in (found.get("Containers") or {}).values())
        taken = {spec.gateway_of(subnet), *map(IPv4Address, filter(None, used))}
        chosen = self._addresses.choose(IPv4Network(subnet), taken)
        if chosen is None:
            raise ActionFailed(f"The network {self._options.network} has no address left.")
        return str(chosen)

    def isolation(self) -> list[str]:
        """What separates workspaces, in sentences for people."""
        if self._trouble is not None:
            return [f"Workspaces are NOT isolated from this machine and from each other: {self._trouble}."]
        if self._options.outbound is Outbound.NONE:
            outbound = "Workspaces have no outbound network."
        else:
            outbound = "Workspaces reach the internet, but no private, link-local or metadata address."
        exceptions = (
            [f"Exceptions, allowed by settings: {', '.join(self._options.allow)}."] if self._options.allow else []
        )
        return [
            "Workspaces are containers of uid 1000 without capabilities, with a read-only root where the image allows.",
            "Workspaces reach neither each other nor any service of this machine (firewall verified in the kernel).",
            outbound,
            *exceptions,
            "The disk space of a home is not limited.",
            self._reach.sentence
            if self._reach
            else "Storage jobs do not reach the archive store, whose name is unknown.",
        ]

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _put_up(self, rules: str) -> None:
        options = self._options
        internal = options.outbound is Outbound.NONE
        await self._network(options.network, options.bridge, internal=internal, named=True)
        await self._network(options.job_network, options.job_bridge, internal=False, named=False)
        await self._guard(rules)

    async def _network(self, name: str, bridge: str, *, internal: bool, named: bool) -> None:
        found = await none_if_missing(self._engine.get(f"/networks/{name}"))
        subnet = subnet_of(found) if found is not None and named else None
        wanted = spec.network_body(self._options, name, bridge, internal=internal, subnet=subnet)
        if found is not None and is_as_wanted(found, wanted):
            return
        if found is not None:
            log.info("network is of an older shape, made anew", network=name)
            await self._remove_network(found)
        if named:
            wanted = spec.network_body(
                self._options, name, bridge, internal=internal, subnet=await self._free_subnet(name, bridge)
            )
        await self._create(wanted)

    async def _free_subnet(self, name: str, bridge: str) -> str:
        """One that the engine would take itself: it lets addresses be chosen only where the subnet was named."""
        await self._create(spec.network_body(self._options, name, bridge, internal=True))
        draft = await self._engine.get(f"/networks/{name}")
        await self._remove_network(draft)
        return subnet_of(draft)

    async def _create(self, wanted: spec.Body) -> None:
        try:
            await self._engine.post("/networks/create", wanted)
        except EngineError as error:
            if error.status != 409:  # another process of this installation was quicker
                raise ActionFailed(f"The engine does not make the network {wanted['Name']}: {error.message}") from error

    async def _remove_network(self, found: Any) -> None:  # noqa: ANN401 - the engine's JSON
        try:
            await none_if_missing(self._engine.delete(f"/networks/{found['Id']}"))
        except EngineError as error:
            raise ActionFailed(
                f"The network {found['Name']} has other options than the settings ask for and is in use",
                "Stop the workspaces, or take the change of settings back.",
            ) from error

    async def _guard(self, rules: str) -> None:
        await self._remove_old_guards()
        name = f"codehub-guard-{self._options.mark}-{uuid4().hex[:8]}"
        try:
            made = await self._engine.post("/containers/create", spec.guard_body(self._options), name=name)
        except EngineError as error:
            raise ActionFailed(f"the image {self._options.guard_image} does not start: {error.message}") from error
        try:
            await self._engine.feed(made["Id"], rules.encode())
            ended = await self._engine.post(f"/containers/{made['Id']}/wait")
            text = seen.plain_log(await self._engine.read(f"/containers/{made['Id']}/logs", stdout=1, stderr=1))
        except EngineError as error:
            raise ActionFailed(f"the firewall cannot be put up: {error.message}") from error
        finally:
            with suppress(EngineError):
                await self._engine.delete(f"/containers/{made['Id']}", force=1)
        if ended["StatusCode"] != 0:
            raise ActionFailed(f"the firewall is not in force: {text.strip()[-300:]}")

    async def _remove_old_guards(self) -> None:
        """Those that were cut off from whoever made them; a guard's own work takes less than a second."""
        filters = spec.label_filter(self._options.installation, spec.GUARD)
        for container_id in left_behind(
            await self._engine.get("/containers/json", all=1, filters=filters), time.time()
        ):
            with suppress(EngineError):  # somebody else is removing it
                await self._engine.delete(f"/containers/{container_id}", force=1)


def left_behind(listed: Any, now: float) -> list[str]:  # noqa: ANN401 - the engine's JSON
    """The guards that nobody waits for any more."""
    return [each["Id"] for each in listed if now - each["Created"] > _GUARD_SECONDS]


def is_as_wanted(found: Any, wanted: spec.Body) -> bool:  # noqa: ANN401 - the engine's JSON
    """Whether a network that is there has all the options that matter."""
    options = found.get("Options") or {}
    return (
        found.get("Driver") == wanted["Driver"]
        and found.get("Internal") == wanted["Internal"]
        and found.get("Labels") == wanted["Labels"]
        and all(options.get(key) == value for key, value in wanted["Options"].items())
    )


def subnet_of(found: Any) -> str:  # noqa: ANN401 - the engine's JSON
    return str(found["IPAM"]["Config"][0]["Subnet"])


def name_servers(options: DockerOptions) -> tuple[str, ...]:
    """Those that workspaces ask: the settings', else the ones that the engine takes over from its machine."""
    if options.dns:
        return options.dns
    for path in _RESOLV_CONF:
        try:
            words = [line.split() for line in path.read_text().splitlines()]
        except OSError:
            continue
        found = tuple(w[1] for w in words if len(w) > 1 and w[0] == "nameserver" and _is_usable(w[1]))
        if found:
            return found
    return ()


def _is_usable(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.version == 4 and not address.is_loopback
