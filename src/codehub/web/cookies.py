"""The cookies of a session, and of a visit at a workspace's own origin.

HttpOnly, SameSite=Lax, for this host only; under TLS Secure, and named `__Host-…`.

The prefix makes browsers refuse such a cookie from a sibling host or from a page's script, for example a workspace's.
Without TLS it cannot be had: there a page of CodeHub's own host (path mode) may plant a cookie of the same name beside
ours, for a longer path or for the domain. Of several the one whose session is alive counts (auth.py), none if two are,
and the answer ends those that were planted (cookie_tossing.py). A cookie that is planted while there is none of ours
counts: whoever logs in without TLS in path mode may find themselves in somebody else's account (docs/security.md).
"""

from collections.abc import Sequence

from fastapi import Response
from starlette.requests import HTTPConnection

PLAIN = "codehub_session"
SECURE = f"__Host-{PLAIN}"
FLOW = "codehub_oidc"  # a login that went to an OpenID provider
SECURE_FLOW = f"__Host-{FLOW}"
DEVICE = "codehub_device"  # a browser that was logged in with before
VISIT = "codehub_visit"  # opens one workspace at its own origin, and nothing of ours
SECURE_VISIT = f"__Host-{VISIT}"
ENTERING = "codehub_entering"  # a browser that is being led to a workspace's own origin
SECURE_ENTERING = f"__Host-{ENTERING}"
LOOK = "codehub_look"  # no secret: the dashboard's language and theme, for pages that it does not draw
# None of them may ever reach a workspace.
OURS = (PLAIN, SECURE, FLOW, SECURE_FLOW, DEVICE, VISIT, SECURE_VISIT, ENTERING, SECURE_ENTERING, LOOK)


def sessions_of(connection: HTTPConnection, *, secure: bool) -> Sequence[str]:
    """The secrets in the request's cookies, each once: several if all but one were planted."""
    return values_of(connection, SECURE if secure else PLAIN)


def visit_of(connection: HTTPConnection, *, secure: bool) -> str | None:
    return value_of(connection, SECURE_VISIT if secure else VISIT)


def entering_of(connection: HTTPConnection, *, secure: bool) -> str | None:
    return value_of(connection, SECURE_ENTERING if secure else ENTERING)


def value_of(connection: HTTPConnection, wanted: str) -> str | None:
    """The cookie's value, unless there is none or more than one."""
    found = values_of(connection, wanted)
    return found[0] if len(found) == 1 else None


def only_value(header: str, wanted: str) -> str | None:
    found = values_in(header, wanted)
    return found[0] if len(found) == 1 else None


def values_in(header: str, wanted: str) -> Sequence[str]:
    """Each once."""
    pairs = (pair.partition("=") for pair in header.split(";"))
    return list(dict.fromkeys([value.strip() for name, equals, value in pairs if equals and name.strip() == wanted]))


def values_of(connection: HTTPConnection, wanted: str) -> Sequence[str]:
    return values_in("; ".join(connection.headers.getlist("cookie")), wanted)


def set_session(response: Response, secret: str, *, secure: bool, seconds: float) -> None:
    set_cookie(response, SECURE if secure else PLAIN, secret, secure=secure, seconds=seconds)


def end_session(response: Response, *, secure: bool) -> None:
    set_cookie(response, SECURE if secure else PLAIN, "", secure=secure, seconds=0)


def set_visit(response: Response, secret: str, *, secure: bool, seconds: float) -> None:
    set_cookie(response, SECURE_VISIT if secure else VISIT, secret, secure=secure, seconds=seconds)


def set_look(response: Response, look: str, *, secure: bool, seconds: float) -> None:
    """At a workspace's own origin, where the dashboard cannot."""
    set_cookie(response, LOOK, look, secure=secure, seconds=seconds)


def set_entering(response: Response, secret: str, *, secure: bool, seconds: float) -> None:
    set_cookie(response, SECURE_ENTERING if secure else ENTERING, secret, secure=secure, seconds=seconds)


def set_cookie(response: Response, name: str, value: str, *, secure: bool, seconds: float, path: str = "/") -> None:
    response.set_cookie(name, value, max_age=int(seconds), path=path, secure=secure, httponly=True, samesite="lax")
