"""The addresses that browsers use, looked at from this machine: CodeHub's own, and that of any workspace.

They come from the settings alone. Every question has an end but that for a name, which the resolver ends.
"""

import socket
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

from codehub.services.doctor import codes, websockets
from codehub.services.doctor.finding import Finding, State, ok, warning

SECONDS = 15.0


def look(public_url: str | None, workspace_host: str | None, *, seconds: float = SECONDS) -> list[Finding]:
    """Both, and whether WebSockets get through where something answers."""
    found = {}
    if public_url is not None:
        found[public_url.rstrip("/")] = public_address(public_url, seconds=seconds)
    if (origin := any_workspace(workspace_host, public_url)) is not None:
        found[origin] = wildcard_name(origin, seconds=seconds)
    answering = [origin for origin, one in found.items() if one.state is State.OK]
    return [*found.values(), *([websockets.tried(answering, seconds=seconds)] if answering else [])]


def public_address(url: str, *, seconds: float = SECONDS) -> Finding:
    """From this machine, as a browser would reach it."""
    try:
        with urlopen(f"{url.rstrip('/')}/healthz", timeout=seconds) as answer:  # noqa: S310 - from our settings
            if answer.read(16) == b"ok\n":
                return ok(codes.PUBLIC.check, f"{url} answers")
        why = "something else than CodeHub answers"
    except (URLError, OSError, ValueError) as error:
        why = str(getattr(error, "reason", error))
    return warning(
        codes.PUBLIC,
        f"{url} does not reach CodeHub from this machine: {why}.",
        "Check its name, its certificate and the proxy in front.",
    )


def any_workspace(workspace_host: str | None, public_url: str | None) -> str | None:
    """The origin of a workspace that nobody has, where workspaces have origins below a name of their own."""
    if workspace_host in (None, "none"):
        return None
    return f"{urlsplit(public_url or '').scheme or 'http'}://{uuid4()}.{workspace_host}"


def wildcard_name(origin: str, *, seconds: float = SECONDS) -> Finding:
    """Whether the name of a workspace that nobody has leads to a server: then every workspace's does."""
    name = urlsplit(origin).hostname or ""
    host = name.partition(".")[2]
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError) as error:
        return warning(
            codes.WILDCARD,
            f"{name} is not known here: {getattr(error, 'strerror', None) or error}.",
            f"Make a DNS entry *.{host} that leads to the proxy.",
        )
    try:
        urlopen(f"{origin}/", timeout=seconds).close()  # noqa: S310 - from our settings
    except HTTPError:
        pass  # it is nobody's, and something answers: that is all
    except (URLError, OSError, ValueError) as error:
        return warning(
            codes.WILDCARD,
            f"{origin}/ is not answered: {getattr(error, 'reason', error)}.",
            f"The proxy in front needs *.{host}, also in its certificate.",
        )
    return ok(codes.WILDCARD.check, f"*.{host} leads to a server")
