"""Whether a page of another origin made a browser send a request with its cookies. The gate and the API ask alike.

SameSite=Lax keeps other sites out, but workspaces are siblings: their origins are the same site as each other and as
CodeHub. So what comes from another origin may go to a workspace only as a person's own step there (a link, an
address), or from the same workspace's other ports, which are nobody else's code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from codehub.model.visiting import Destination
from codehub.web.hosts import Hosts

_OWN_SITES = frozenset({"same-origin", "none"})
_REPORTS = frozenset({"application/csp-report", "application/reports+json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a request says of how it came to be; None is what was not said."""

    method: str
    origin: str | None = None
    site: str | None = None
    mode: str | None = None
    dest: str | None = None
    accept: str | None = None
    purpose: str | None = None

    @classmethod
    def of(cls, method: str, headers: Mapping[str, str]) -> Self:
        return cls(
            method=method,
            origin=headers.get("origin"),
            site=headers.get("sec-fetch-site"),
            mode=headers.get("sec-fetch-mode"),
            dest=headers.get("sec-fetch-dest"),
            accept=headers.get("accept"),
            purpose=headers.get("sec-purpose") or headers.get("purpose"),
        )

    @property
    def is_navigation(self) -> bool:
        """A person goes there in a tab: no frame, no script, no browser that only guesses they might."""
        if self.method != "GET" or (self.purpose is not None and "prefetch" in self.purpose):
            return False
        if self.mode is not None or self.dest is not None:
            return self.mode in (None, "navigate") and self.dest in (None, "document")
        return "text/html" in (self.accept or "")

    @property
    def is_event_source(self) -> bool:
        """A page's script listens to events: no picture, style or other thing that a page merely names."""
        return self.dest in (None, "empty") and "text/event-stream" in (self.accept or "")


def is_report(dest: str | None, content_type: str | None) -> bool:
    """Whether a browser tells of a broken policy: it does so wherever an answer says, and with cookies."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return (dest or "").strip().lower() == "report" or kind in _REPORTS


def is_part_of_a_page(dest: str | None) -> bool:
    """Whether a page only names it: a picture, a style, a frame. What scripts ask for is `empty`."""
    return dest is not None and dest.strip().lower() not in ("empty", "document")


def is_from_elsewhere(sent: Sent, *, own: str, to: Destination | None, hosts: Hosts) -> bool:
    """Whether to refuse it. `own` is the origin it was sent to, as https://host."""
    if sent.origin is not None:
        return sent.origin.lower() != own and not _is_same_workspace(sent.origin.lower(), own, to, hosts)
    if sent.site is None or sent.site in _OWN_SITES:
        return False
    return not (sent.method in {"GET", "HEAD"} and sent.mode == "navigate" and sent.dest == "document")


def _is_same_workspace(origin: str, own: str, to: Destination | None, hosts: Hosts) -> bool:
    place = hosts.place_of(origin.partition("://")[2])
    if to is None or not isinstance(place, Destination) or place.workspace != to.workspace:
        return False
    return _beside(origin) == _beside(own)


def _beside(origin: str) -> tuple[str, str]:
    """Scheme, and host and port without the first label."""
    scheme, _, authority = origin.partition("://")
    return scheme, authority.partition(".")[2]
