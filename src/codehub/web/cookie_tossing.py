"""Ends cookies that a page planted beside ours, for a longer path of this host or for the domain (cookies.py).

A request says a cookie's name and value alone. So where one of ours comes with two values, the answer ends every cookie
of that name that a browser could have sent here, but for ours: that of this host alone, for `/`.
"""

import random
from collections.abc import Sequence
from ipaddress import ip_address

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codehub.config import AccountConfig
from codehub.web.cookies import FLOW, PLAIN, values_of
from codehub.web.csrf import authority

_MOST_PATHS, _MOST_DOMAINS = 16, 4
_MOST_LINES = 60  # of an answer: proxies and clients refuse heads that are too long


class CookieTossing:
    """ASGI middleware. Names with the prefix `__Host-` cannot be planted."""

    def __init__(self, app: ASGIApp, config: AccountConfig) -> None:
        self._app = app
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        planted = self._planted(scope) if scope["type"] == "http" else ()
        if not planted:
            await self._app(scope, receive, send)
            return

        async def begin(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((b"set-cookie", each) for each in planted)]
            await send(message)

        await self._app(scope, receive, begin)

    def _planted(self, scope: Scope) -> Sequence[bytes]:
        request = Request(scope)
        if b"codehub_" not in b"".join([value for name, value in scope["headers"] if name == b"cookie"]):
            return ()
        names = [name for name in (PLAIN, FLOW) if len(values_of(request, name)) > 1]
        if not names:
            return ()
        host = authority(request, self._config)
        found = [each.encode("latin-1") for name in names for each in endings(name, host, _path_of(scope))]
        # Others each time, so that in the end it is all of them.
        return found if len(found) <= _MOST_LINES else random.sample(found, _MOST_LINES)


def endings(name: str, host: str, path: str) -> Sequence[str]:
    """What ends each cookie of this name that is sent to this path, but for that of this host alone for `/`."""
    found = []
    for domain in ("", *_domains(host)):
        for above in _paths(path):
            if domain or above != "/":
                suffix = f"; Domain={domain}" if domain else ""
                found.append(f"{name}=; Max-Age=0; Path={above}{suffix}")
    return found


def _paths(path: str) -> Sequence[str]:
    """Those that a cookie may have been set for: each folder with its slash and without."""
    parts = [part for part in path.split("/") if part]
    found = ["/"]
    for count in range(1, len(parts) + 1):
        folder = "/" + "/".join(parts[:count])
        found += [folder, f"{folder}/"]
    return found[:_MOST_PATHS]


def _domains(host: str) -> Sequence[str]:
    """This host's and those above it, unless it is an address, or a name that no cookie can be set for."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        labels = name.strip(".").split(".")
        return [".".join(labels[at:]) for at in range(max(1, len(labels) - 1))][:_MOST_DOMAINS]
    return ()


def _path_of(scope: Scope) -> str:
    """As the browser compares it: not decoded."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")
