"""The hosts that CodeHub answers at: those that are surely ours, and those that a setting names.

A page of another site can have its own name lead here (DNS rebinding), and would then be of our origin. So a name
counts only if nobody else can give it away: localhost and what is below it, addresses, this machine's own name
without a domain, and CODEHUB_PUBLIC_URL, CODEHUB_WORKSPACE_HOST, CODEHUB_HOST and CODEHUB_ALLOWED_HOSTS. A domain
that the network tells of (DHCP), and `.local` (mDNS), whoever is on that network can give away. `/healthz` answers at
any name: load balancers ask for it under names of theirs, and it tells nothing.
"""

import socket
from functools import cache
from http import HTTPStatus

from fastapi.responses import JSONResponse, RedirectResponse
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from codehub.config import Settings
from codehub.web import csrf
from codehub.web.crossing import Sent
from codehub.web.errors import error_body
from codehub.web.hosts import Hosts, Place

MISDIRECTED = 421
_FREE = "/healthz"


def hosts_of(settings: Settings, *, to_localhost: bool = False) -> Hosts:
    accounts = settings.accounts
    names = (machine_name(), settings.server.host, *accounts.allowed_hosts)
    return Hosts(accounts.workspace_host, accounts.public_url, names, to_localhost=to_localhost)


@cache
def machine_name() -> str:
    """As the machine knows itself, without a domain. Asks nobody."""
    return socket.gethostname().lower().partition(".")[0]


class KnownHosts:
    """ASGI middleware: a request to a host that is not ours is answered in one sentence, and nothing else is done."""

    def __init__(self, app: ASGIApp, hosts: Hosts, settings: Settings) -> None:
        self._app = app
        self._hosts = hosts
        self._accounts = settings.accounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != _FREE:
            authority = csrf.authority(Request(scope), self._accounts)
            if self._hosts.place_of(authority) is Place.STRANGE:
                await _refusal(authority)(scope, receive, send)
                return
            if (better := self._better(scope, authority)) is not None:
                await RedirectResponse(better, HTTPStatus.TEMPORARY_REDIRECT)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _better(self, scope: Scope, authority: str) -> str | None:
        """The same page at localhost, where workspaces have origins of their own."""
        better = self._hosts.localhost_for(authority)
        request = Request(scope)
        if (
            better is None
            or scope["path"].startswith("/api/")
            or not Sent.of(request.method, request.headers).is_navigation
        ):
            return None
        scheme = "https" if csrf.is_secure(request, self._accounts) else "http"
        return f"{scheme}://{better}{target_of(request)}"


def target_of(request: Request) -> str:
    """Path and query, as they were sent."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    return f"{path}?{request.url.query}" if request.url.query else path


def _refusal(authority: str) -> JSONResponse:
    name = authority[:100] or "no host"
    message = (
        f"CodeHub does not answer as {name}. If that is its name, set CODEHUB_PUBLIC_URL to its address, or add the "
        "name to CODEHUB_ALLOWED_HOSTS."
    )
    return JSONResponse(error_body("unknown_host", message), MISDIRECTED)
