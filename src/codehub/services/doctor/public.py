"""The addresses that browsers use, looked at from this machine: CodeHub's own, and that of any workspace.

They come from the settings alone. What is given as `seconds` ends each wait, not the whole: a name may have several
addresses, and the resolver ends its own. Who needs an end for the whole waits no longer (serving.py).
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

from codehub.services.doctor import codes, websockets
from codehub.services.doctor.codes import Code
from codehub.services.doctor.finding import Finding, State, ok, warning

SECONDS = 15.0
UNANSWERED = (URLError, OSError, HTTPException, ValueError)  # nobody there, or somebody who speaks no HTTP


@dataclass(frozen=True, slots=True)
class Question:
    """One address; `ask` blocks, for as long as each of the name's addresses takes."""

    code: Code
    origin: str
    ask: Callable[[], Finding]


def questions(public_url: str | None, workspace_host: str | None, *, seconds: float = SECONDS) -> list[Question]:
    """What there is to ask, each by itself."""
    asked = []
    if public_url is not None:
        asked.append(Question(codes.PUBLIC, public_url, partial(public_address, public_url, seconds=seconds)))
    if (origin := any_workspace(workspace_host, public_url)) is not None:
        asked.append(Question(codes.WILDCARD, origin, partial(wildcard_name, origin, seconds=seconds)))
    return asked


def look(public_url: str | None, workspace_host: str | None, *, seconds: float = SECONDS) -> list[Finding]:
    """Both, and whether WebSockets get through where something answers."""
    asked = questions(public_url, workspace_host, seconds=seconds)
    found = [one.ask() for one in asked]
    answering = origins_answering(asked, found)
    return [*found, *([websockets.tried(answering, seconds=seconds)] if answering else [])]


def origins_answering(asked: Sequence[Question], found: Sequence[Finding]) -> list[str]:
    pairs = zip(asked, found, strict=True)
    return [question.origin.rstrip("/") for question, one in pairs if one.state is State.OK]


def public_address(url: str, *, seconds: float = SECONDS) -> Finding:
    """From this machine, as a browser would reach it."""
    try:
        with urlopen(f"{url.rstrip('/')}/healthz", timeout=seconds) as answer:  # noqa: S310 - from our settings
            if answer.read(16) == b"ok\n":
                return ok(codes.PUBLIC.check, f"{url} answers")
        why = "something else than CodeHub answers"
    except UNANSWERED as error:
        why = _why(error)
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
    except UNANSWERED as error:
        return warning(
            codes.WILDCARD,
            f"{origin}/ is not answered: {_why(error)}.",
            f"The proxy in front needs *.{host}, also in its certificate.",
        )
    return ok(codes.WILDCARD.check, f"*.{host} leads to a server")


def _why(error: Exception) -> str:
    """A stranger's words are not repeated."""
    if isinstance(error, HTTPException) and not isinstance(error, OSError):
        return "what answers there speaks no HTTP"
    return str(getattr(error, "reason", error))
