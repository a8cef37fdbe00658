"""The session cookie: HttpOnly, SameSite=Lax, for this host only; under TLS Secure, and named `__Host-…`.

The prefix makes browsers refuse such a cookie from a sibling host, for example from a workspace's own origin. Without
TLS it cannot be had; then a cookie that comes twice counts as none, since one of the two was planted.
"""

from fastapi import Response
from starlette.requests import HTTPConnection

PLAIN = "codehub_session"
SECURE = f"__Host-{PLAIN}"
FLOW = "codehub_oidc"  # a login that went to an OpenID provider
SECURE_FLOW = f"__Host-{FLOW}"
DEVICE = "codehub_device"  # a browser that was logged in with before
OURS = (PLAIN, SECURE, FLOW, SECURE_FLOW, DEVICE)  # none of them may ever reach a workspace


def session_of(connection: HTTPConnection, *, secure: bool) -> str | None:
    """The secret in the request's cookie."""
    return value_of(connection, SECURE if secure else PLAIN)


def value_of(connection: HTTPConnection, wanted: str) -> str | None:
    """The cookie's value, unless there is none or more than one."""
    found = {
        value.strip()
        for header in connection.headers.getlist("cookie")
        for name, equals, value in (pair.partition("=") for pair in header.split(";"))
        if equals and name.strip() == wanted
    }
    return found.pop() if len(found) == 1 else None


def set_session(response: Response, secret: str, *, secure: bool, seconds: float) -> None:
    set_cookie(response, SECURE if secure else PLAIN, secret, secure=secure, seconds=seconds)


def end_session(response: Response, *, secure: bool) -> None:
    set_cookie(response, SECURE if secure else PLAIN, "", secure=secure, seconds=0)


def set_cookie(response: Response, name: str, value: str, *, secure: bool, seconds: float, path: str = "/") -> None:
    response.set_cookie(name, value, max_age=int(seconds), path=path, secure=secure, httponly=True, samesite="lax")
