"""Logging in with an OpenID provider: there and back again."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse

from codehub.services import oidc
from codehub.services.provider import Provider
from codehub.signals.flows import SECONDS, RedisFlows
from codehub.web.api.session import client_of, end_previous
from codehub.web.context import InContext
from codehub.web.cookies import FLOW, SECURE_FLOW, set_cookie, set_session, value_of
from codehub.web.csrf import is_secure, own_origin
from codehub.web.redirects import local_path

router = APIRouter(tags=["session"])

CALLBACK = "/api/v1/login/oidc/callback"

Text = Annotated[str | None, Query(max_length=4000)]


@router.get("/login/oidc", status_code=303, response_class=RedirectResponse)
async def login_elsewhere(request: Request, context: InContext, next: Text = None) -> RedirectResponse:  # noqa: A002 - in the query
    """Send the browser to the provider; it comes back to `next`, a path of this server."""
    config = context.settings.accounts
    started = await oidc.start(
        provider_of(request),
        RedisFlows(context.redis),
        redirect_uri=own_origin(request, config) + CALLBACK,
        next_path=local_path(next),
    )
    response = RedirectResponse(started.url, 303)
    secure = is_secure(request, config)
    set_cookie(response, _flow_name(secure=secure), started.cookie, secure=secure, seconds=SECONDS)
    return response


@router.get("/login/oidc/callback", status_code=303, response_class=RedirectResponse)
async def come_back(
    request: Request,
    context: InContext,
    *,
    state: Text = None,
    code: Text = None,
    error: Text = None,
    iss: Text = None,
) -> RedirectResponse:
    """Where the provider sends the browser back to."""
    config = context.settings.accounts
    secure = is_secure(request, config)
    arrived = await oidc.finish(
        context.pool,
        config,
        provider_of(request),
        RedisFlows(context.redis),
        cookie=value_of(request, _flow_name(secure=secure)),
        answer=oidc.Answer(state=state, code=code, error=error, issuer=iss),
        client=client_of(request, context),
    )
    await end_previous(request, context)
    response = RedirectResponse(local_path(arrived.next), 303)
    set_cookie(response, _flow_name(secure=secure), "", secure=secure, seconds=0)
    set_session(response, arrived.secret, secure=secure, seconds=config.session_absolute_seconds)
    return response


def provider_of(request: Request) -> Provider:
    provider: Provider = request.app.state.provider
    return provider


def _flow_name(*, secure: bool) -> str:
    return SECURE_FLOW if secure else FLOW
