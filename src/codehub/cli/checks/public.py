"""The addresses that browsers use, looked at from this machine: CodeHub's own, and that of any workspace."""

import socket
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, ok, warning

_SECONDS = 15.0


def public_address(url: str) -> Finding:
    """From this machine, as a browser would reach it."""
    try:
        with urlopen(f"{url.rstrip('/')}/healthz", timeout=_SECONDS) as answer:  # noqa: S310 - from our settings
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


def wildcard_name(workspace_host: str | None, public_url: str | None) -> list[Finding]:
    """Whether the name of a workspace that nobody has leads to CodeHub: then every workspace's does."""
    if workspace_host in (None, "none"):
        return []
    host, _, port = str(workspace_host).partition(":")
    name = f"{uuid4()}.{host}"
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        return [
            warning(
                codes.WILDCARD,
                f"{name} is not known here: {error.strerror or error}.",
                f"Make a DNS entry *.{host} that leads to the proxy.",
            )
        ]
    scheme = urlsplit(public_url or "").scheme or "http"
    return [_answers(f"{scheme}://{name}{f':{port}' if port else ''}/", host)]


def _answers(url: str, host: str) -> Finding:
    try:
        urlopen(url, timeout=_SECONDS).close()  # noqa: S310 - from our settings
    except HTTPError:
        pass  # it is nobody's, and something answers: that is all
    except (URLError, OSError, ValueError) as error:
        return warning(
            codes.WILDCARD,
            f"{url} is not answered: {getattr(error, 'reason', error)}.",
            f"The proxy in front needs *.{host}, also in its certificate.",
        )
    return ok(codes.WILDCARD.check, f"*.{host} leads to a server")
