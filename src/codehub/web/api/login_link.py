"""Logging in with a one-time link, on the machine that CodeHub runs on and nowhere else.

The client's address must be loopback, and so must the host that it asked for. Whoever comes through another proxy does
not count as local, even if that proxy is on this machine (web/forwarded.py). A refused request does not use up a link.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse

from codehub.errors import NotAllowed, NotLoggedIn
from codehub.services import login_links
from codehub.signals.login_links import RedisLoginLinks
from codehub.web import csrf, forwarded, hosts
from codehub.web.api.session import client_of, end_previous
from codehub.web.context import Context, InContext
from codehub.web.cookies import set_session

router = APIRouter(tags=["session"])


@router.get("/login/link", status_code=303, response_class=RedirectResponse)
async def log_in_with_link(
    request: Request, context: InContext, code: Annotated[str, Query(max_length=200)] = ""
) -> RedirectResponse:
    """Log in with the one-time link that `codehub up` prints; from this machine only."""
    _check_local(request, context)
    config = context.settings.accounts
    links = RedisLoginLinks(context.redis)
    try:
        secret = await login_links.redeem(context.pool, config, links, code, client_of(request, context))
    except NotLoggedIn as error:
        return RedirectResponse(f"/login?error={error.code}", 303)
    await end_previous(request, context)
    response = RedirectResponse("/", 303)
    secure = csrf.is_secure(request, config)
    set_session(response, secret, secure=secure, seconds=config.session_absolute_seconds)
    return response


def _check_local(request: Request, context: Context) -> None:
    config = context.settings.accounts
    is_local = forwarded.is_here(csrf.client_address(request, config)) and "via" not in request.headers
    if not is_local or not hosts.is_loopback(csrf.authority(request, config)):
        raise NotAllowed(
            "A login link works only in a browser on the machine that CodeHub runs on.",
            "Log in with your password.",
            code="not_local",
        )
