"""Which host is whose: CodeHub's own, or the origin of one workspace, or of one port inside it. Pure.

    {id}.localhost:8080              a workspace, where CodeHub is localhost or something.localhost
    {id}.ws.example.com              … with CODEHUB_WORKSPACE_HOST=ws.example.com
    3000--{id}.ws.example.com        port 3000 inside it

Where a workspace has an origin of its own the browser keeps it from CodeHub and from other workspaces. At any other
address, such as 127.0.0.1 or a machine's name, workspaces are below /w/{id}/ of CodeHub's own origin: path mode.
"""

import re
from collections.abc import Collection
from enum import Enum
from ipaddress import ip_address
from typing import Final
from uuid import UUID

from codehub.model.visiting import PORTS, Destination
from codehub.model.workspace import WorkspaceId

LOCAL: Final = "localhost"
_MOST_PLACES, _LONGEST_KEPT = 5000, 300  # a name has 253 characters at most
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LABEL = re.compile(rf"(?:([1-9][0-9]{{3,4}})--)?({_UUID})")
_AUTHORITY = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


PATH_RISK = (
    "In path mode the browser does not keep workspaces apart from CodeHub and from each other: a page of one can act "
    "as whoever opened it."
)


class Place(Enum):
    """A host that is no workspace's."""

    MAIN = "CodeHub's own"
    NOWHERE = "below the workspaces' host, but nobody's"
    STRANGE = "none that we answer at (our_hosts.py)"


class Hosts:
    """`configured` is CODEHUB_WORKSPACE_HOST, a host with or without a port; "none" is path mode everywhere.

    `public_url` is CODEHUB_PUBLIC_URL: where it is set, it says what browsers speak, whatever stands in between.
    `names` are ours beside these, localhost and addresses; one that begins with `*.` is every name below it.
    """

    def __init__(
        self,
        configured: str | None = None,
        public_url: str | None = None,
        names: Collection[str] = (),
        *,
        to_localhost: bool = False,
    ) -> None:
        self.public_url = public_url
        self._is_local = configured is None
        self._to_localhost = to_localhost and self._is_local and public_url is None
        named = (configured or LOCAL) if configured != "none" else ""
        self._host, _, self._port = named.partition(":")
        self._main = _split(public_url.partition("://")[2])[0] if public_url is not None else None
        self._names = frozenset(_split(name)[0] or name.lower() for name in names if name)
        self._places: dict[str, Destination | Place] = {}  # of hosts that were asked for lately

    def place_of(self, authority: str) -> Destination | Place:
        """Whose host this is. Without a setting only names that are a workspace's are: codehub.localhost is our own."""
        if len(authority) > _LONGEST_KEPT:
            return self._place_of(authority)
        place = self._places.get(authority)
        if place is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            place = self._places[authority] = self._place_of(authority)
        return place

    def _place_of(self, authority: str) -> Destination | Place:
        name = _split(authority)[0]
        if not self._host or not name.endswith(f".{self._host}") or name == self._main:
            return Place.MAIN if self._is_ours(name) else Place.STRANGE
        label = name[: -len(self._host) - 1]
        found = _LABEL.fullmatch(label)
        if found is None:
            return Place.MAIN if self._is_local else Place.NOWHERE
        port = int(found[1]) if found[1] else None
        if port is not None and port not in PORTS:
            return Place.NOWHERE
        return Destination(WorkspaceId(UUID(found[2])), port)

    def _is_ours(self, name: str) -> bool:
        if name in (LOCAL, self._main, self._host) or name in self._names or name.endswith(f".{LOCAL}"):
            return bool(name)
        above = name.split(".")
        if any("*." + ".".join(above[at:]) in self._names for at in range(1, len(above))):
            return True
        return _is_address(name)

    def authority_for(self, to: Destination, main: str) -> str | None:
        """The host of its own that browsers reach it at who know CodeHub as `main`; None in path mode."""
        if not self._host:
            return None
        name, port = _split(main)
        if self._is_local and name != LOCAL and not name.endswith(f".{LOCAL}"):
            return None
        label = str(to.workspace) if to.port is None else f"{to.port}--{to.workspace}"
        port = f":{self._port}" if self._port else port
        return f"{label}.{self._host}{port}"

    def localhost_for(self, authority: str) -> str | None:
        """Where a person is to go instead who came to a loopback address: there every workspace has its own origin."""
        name, port = _split(authority)
        if not self._to_localhost or name == LOCAL or not is_loopback(authority):
            return None
        return f"{LOCAL}{port}"

    def main_origin(self, authority: str, *, is_secure: bool, known_as: str | None = None) -> str:
        """CodeHub's own origin beside this workspace's host; CODEHUB_PUBLIC_URL is set where the host is.

        `known_as` is the host that a browser says it came from: believed if it is surely ours.
        """
        if self.public_url is not None:
            return self.public_url
        name, port = _split(known_as or "")
        here = _split(authority)[1]
        is_ours = name.endswith(f".{LOCAL}") and port == here and self.place_of(f"{name}{port}") is Place.MAIN
        return f"{'https' if is_secure else 'http'}://{name if is_ours else LOCAL}{here}"

    def is_secure(self, seen: bool) -> bool:
        """Whether the browser speaks TLS; `seen` is what the request says."""
        return self.public_url.startswith("https://") if self.public_url is not None else seen

    @property
    def description(self) -> str:
        """How workspaces' pages are kept apart in the browser, and what is left to know."""
        if not self._host:
            return f"Workspaces open below /w/{{id}}/ of CodeHub's own origin (path mode). {PATH_RISK}"
        if self._is_local:
            return (
                "Workspaces have origins of their own, {id}.localhost, where CodeHub is opened as localhost; at any "
                f"other address they open below /w/{{id}}/ of CodeHub's own origin (path mode). {PATH_RISK}"
            )
        return f"Workspaces have origins of their own, {{id}}.{self._host}."


def is_loopback(authority: str) -> bool:
    """Whether this host is this machine by its name alone: localhost, or a loopback address."""
    name = _split(authority)[0].strip("[]")
    return name == LOCAL or (_is_address(name) and ip_address(name).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _split(authority: str) -> tuple[str, str]:
    """Name and port (with its colon); a trailing dot is the same name."""
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None:
        return "", ""
    return found[1].removesuffix("."), found[2] or ""
