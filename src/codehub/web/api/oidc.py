"""Logging in with an OpenID provider: there and back again."""

import re
from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import RedirectResponse

from codehub.errors import Invalid
from codehub.services import back_channel, oidc
from codehub.services.provider import Provider
from codehub.signals.flows import SECONDS, RedisFlows
from codehub.signals.logout_tokens import RedisLogoutTokens
from codehub.web.api.session import client_of, end_previous, throttle_of
from codehub.web.context import InContext
from codehub.web.cookies import FLOW, SECURE_FLOW, set_cookie, set_session, value_of
from codehub.web.csrf import client_address, is_secure, own_origin
from codehub.web.redirects import has_dots, local_path

router = APIRouter(tags=["session"])

_PROVING = re.compile(r"/(account|admin)([/?#]|$)")  # pages of the dashboard
CALLBACK = "/api/v1/login/oidc/callback"

_LOGOUT_FORM = {
    "required": True,
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {
                "type": "object",
                "required": ["logout_token"],
                "properties": {"logout_token": {"type": "string"}},
            }
        }
    },
}

Text = Annotated[str | None, Query(max_length=4000)]


@router.get("/login/oidc", status_code=303, response_class=RedirectResponse)
async def login_elsewhere(
    request: Request,
    context: InContext,
    next: Text = None,  # noqa: A002 - in the query
    *,
    fresh: bool = False,
) -> RedirectResponse:
    """Send the browser to the provider; it comes back to `next`, a path of this server.

    `fresh`: the provider is to ask for the password again, and the dashboard gets a proof, in the fragment of its URL.
    """
    config = context.settings.accounts
    started = await oidc.start(
        provider_of(request),
        RedisFlows(context.redis),
        redirect_uri=own_origin(request, config) + CALLBACK,
        next_path=local_path(next),
        is_fresh=fresh,
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
    path = local_path(arrived.next)
    if arrived.proof is not None and _PROVING.match(path) and not has_dots(path):  # to those alone
        path = f"{path.partition('#')[0]}#proof={arrived.proof}"
    response = RedirectResponse(path, 303)
    set_cookie(response, _flow_name(secure=secure), "", secure=secure, seconds=0)
    set_session(response, arrived.secret, secure=secure, seconds=config.session_absolute_seconds)
    return response


@router.post("/logout/oidc", status_code=204, openapi_extra={"requestBody": _LOGOUT_FORM})
async def log_out_from_elsewhere(request: Request, context: InContext) -> None:
    """End the sessions that the provider's `logout_token` is about (OpenID Connect Back-Channel Logout)."""
    try:
        await back_channel.log_out(
            context.pool,
            provider_of(request),
            throttle_of(request),
            RedisLogoutTokens(context.redis),
            token=_only_field(await request.body(), "logout_token"),
            address=client_address(request, context.settings.accounts),
        )
    except Invalid as error:  # the standard's status
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error


def _only_field(body: bytes, name: str) -> str:
    """The field of a form, or nothing when it is not there exactly once."""
    try:
        given = parse_qs(body.decode(), max_num_fields=20).get(name, [])
    except ValueError:
        return ""
    return given[0] if len(given) == 1 else ""


def provider_of(request: Request) -> Provider:
    provider: Provider = request.app.state.provider
    return provider


def _flow_name(*, secure: bool) -> str:
    return SECURE_FLOW if secure else FLOW
