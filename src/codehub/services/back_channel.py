"""Logging out by the OpenID provider: OpenID Connect Back-Channel Logout 1.0.

The provider sends a logout token, which is checked like an ID token: signature, issuer, audience, age; it must say that
it is one (`events`), be about a subject or a session, and counts once. A nonce would make it an ID token: refused. What
ends are sessions with their open visits; API tokens go on, as they do after a logout here.
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import structlog
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from codehub.db import accounts, sessions, visits
from codehub.db.pool import Pool, connection
from codehub.errors import Invalid, NotFound, NotLoggedIn, Unavailable
from codehub.services import audit
from codehub.services.oidc import provider_session_of
from codehub.services.provider import LEEWAY_SECONDS, LONGEST_ID, Provider
from codehub.services.sessions import hash_of
from codehub.signals.logout_tokens import RedisLogoutTokens
from codehub.signals.throttle import LoginThrottle

log = structlog.get_logger(__name__)

EVENT = "http://schemas.openid.net/event/backchannel-logout"
MOST_SECONDS = 300  # of a token's age, and so for how long it must be remembered


async def log_out(
    pool: Pool,
    provider: Provider,
    throttle: LoginThrottle,
    seen: RedisLogoutTokens,
    *,
    token: str,
    address: str | None,
) -> None:
    """End the sessions that a logout token is about. Raises Invalid for what is none, and OverLimit after many."""
    if not provider.is_configured:
        raise NotFound("Logging in with an OpenID provider is not set up here.")
    attempt = await throttle.begin_logout(address)
    try:
        claims = await _checked(provider, token)
    except Unavailable:
        await throttle.forgive(attempt)  # an outage is nobody's failure
        raise
    await throttle.succeeded(attempt)
    key = hash_of(f"{claims['iss']} {claims['jti']}").hex()
    if not await seen.is_first(key, MOST_SECONDS + 2 * LEEWAY_SECONDS):
        raise _refused("it was sent before")
    try:
        await _end(pool, claims)
    except BaseException:
        with contextlib.suppress(Unavailable):
            await seen.forget(key)
        raise


async def _checked(provider: Provider, token: str) -> Mapping[str, Any]:
    try:
        claims = (await provider.verified(token)).claims
    except NotLoggedIn as error:
        raise _refused("it is not the provider's") from error
    registry = JWTClaimsRegistry(
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": await provider.issuer()},
        aud={"essential": True, "value": provider.config.client_id or ""},
        iat={"essential": True},
        jti={"essential": True},
    )
    try:
        registry.validate(claims)
    except (JoseError, TypeError, ValueError) as error:
        raise _refused(type(error).__name__) from error
    if time.time() - claims["iat"] > MOST_SECONDS + LEEWAY_SECONDS:
        raise _refused("it is old")
    events = claims.get("events")
    if not isinstance(events, Mapping) or not isinstance(events.get(EVENT), Mapping) or "nonce" in claims:
        raise _refused("it is no logout token")
    if not _is_id(claims["jti"]) or not all(_is_id(claims[name]) for name in ("sub", "sid") if name in claims):
        raise _refused("an id in it is none")
    if "sub" not in claims and "sid" not in claims:
        raise _refused("it is about nobody")
    return claims


async def _end(pool: Pool, claims: Mapping[str, Any]) -> None:
    issuer, subject, session = claims["iss"], claims.get("sub"), provider_session_of(claims)
    async with connection(pool) as conn:
        for user in await sessions.users_at_provider(conn, issuer, subject, session):
            await accounts.by_id_locked(conn, user)
            await visits.tell_of_revocation(conn, user)
            ended = await sessions.delete_at_provider(conn, user, issuer, subject, session)
            await audit.record(conn, None, "session.logout", user=user, sessions=ended, how="provider")


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ID and "\0" not in value


def _refused(cause: str) -> Invalid:
    log.warning("a logout token is refused", cause=cause)
    return Invalid("The logout token is not valid.", "Check the provider's settings for this client.")
