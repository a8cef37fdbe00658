"""One visit: who comes from where, to which workspace, and how they are spoken to."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse

from codehub.errors import NotAllowed
from codehub.model.visiting import Destination
from codehub.services.actors import Actor
from codehub.web import cookies, csrf
from codehub.web.auth import current_actor
from codehub.web.context import Context
from codehub.web.crossing import Sent, is_from_elsewhere
from codehub.web.hosts import Hosts
from codehub.web.our_hosts import hosts_of
from codehub.web.proxy.backends import UNREACHABLE
from codehub.web.visit.pages import Voice
from codehub.web.visit.words import look_of

_UNREACHABLE = UNREACHABLE.decode()
HOLD_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Visit:
    """`path` is what the workspace is asked for, with its query; `own` is the host of its own, None in path mode."""

    request: Request
    context: Context
    hosts: Hosts
    to: Destination
    path: str
    sent: Sent
    authority: str
    own: str | None

    @classmethod
    def of(cls, request: Request, context: Context, to: Destination, path: str) -> Self:
        accounts = context.settings.accounts
        hosts = hosts_of(context.settings)
        authority = csrf.authority(request, accounts)
        sent = Sent.of(request.method, request.headers)
        return cls(request, context, hosts, to, path, sent, authority, hosts.authority_for(to, authority))

    @property
    def is_secure(self) -> bool:
        return csrf.is_secure(self.request, self.context.settings.accounts)

    @property
    def origin(self) -> str:
        """That this very request was sent to."""
        return f"{self._scheme}://{self.authority}"

    @property
    def own_origin(self) -> str:
        return f"{self._scheme}://{self.own}" if self.own is not None else ""

    @property
    def _scheme(self) -> str:
        return "https" if self.is_secure else "http"

    @property
    def is_unreachable(self) -> bool:
        """The proxy says so: it passes no such header of anybody else's on."""
        return _UNREACHABLE in self.request.headers

    @property
    def hold_seconds(self) -> float:
        """How long a person waits for an answer before they are shown a page."""
        held: float = getattr(self.request.app.state, "hold_seconds", HOLD_SECONDS)
        return held

    @property
    def main_path(self) -> str:
        """Of this visit, on CodeHub's own origin."""
        inside = "" if self.to.port is None else f"/.codehub/port/{self.to.port}"
        return f"/w/{self.to.workspace}{inside}{self.path}"

    @property
    def look(self) -> str:
        """What the dashboard keeps of itself (`ko.dark`), as far as it is that."""
        kept = cookies.value_of(self.request, cookies.LOOK) or ""
        return ".".join(look_of(kept, None)) if kept else ""

    def voice(self, name: str = "", main: str = "") -> Voice:
        kept = cookies.value_of(self.request, cookies.LOOK)
        language, theme = look_of(kept, self.request.headers.get("accept-language"))
        return Voice(language, name, main, theme)

    async def actor(self) -> Actor:
        """Who comes. Raises NotLoggedIn, or NotAllowed for a token that may only read: an IDE writes."""
        actor = await current_actor(self.request)
        actor.require_write()
        return actor

    def check_own(self, origin: str, *, on_own_origin: bool) -> None:
        """Refuse what a page of another origin made the browser send."""
        to = self.to if on_own_origin else None
        if is_from_elsewhere(self.sent, own=origin, to=to, hosts=self.hosts):
            raise NotAllowed("A page of another origin sent this.", "Open the workspace itself.", code="cross_site")

    def to_login(self) -> RedirectResponse:
        return see_other(f"/login?next={quote(self.main_path, safe='')}")


def see_other(url: str) -> RedirectResponse:
    return RedirectResponse(url, HTTPStatus.SEE_OTHER)


def again(url: str) -> RedirectResponse:
    """The same request once more, whatever its method."""
    return RedirectResponse(url, HTTPStatus.TEMPORARY_REDIRECT)
