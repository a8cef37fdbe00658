"""Logging in with an OpenID provider: authorization code with PKCE, state and nonce.

Who somebody is, is issuer and subject and nothing else: names and e-mail addresses can be changed by their owners, and
given to somebody else. The provider decides who may log in; a user who comes for the first time is made. Where a claim
names the administrators, it is followed at every login.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from codehub.config import AccountConfig, OidcConfig
from codehub.db import accounts
from codehub.db.accounts import UserRow
from codehub.db.pool import Connection, Pool, connection
from codehub.errors import Conflict, NotAllowed, NotFound
from codehub.services import audit, proofs
from codehub.services.accounts import Change, keep_an_administrator
from codehub.services.actors import UserRole
from codehub.services.login import open_session
from codehub.services.provider import LONGEST_ID, Provider, failed
from codehub.services.sessions import Client, hash_of, new_secret
from codehub.signals.flows import SECONDS, RedisFlows

log = structlog.get_logger(__name__)

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._@+-]+")
_ERROR_CODE = re.compile(r"[a-z_]{1,60}")
_LONGEST_NAME = 56  # with room for a number


@dataclass(frozen=True, slots=True)
class Started:
    """Where the browser goes, and what its cookie holds meanwhile."""

    url: str
    cookie: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the provider sent the browser back with."""

    state: str | None
    code: str | None
    error: str | None
    issuer: str | None


@dataclass(frozen=True, slots=True)
class Arrived:
    """Who came back, with a session; and where they wanted to go."""

    user: UserRow
    secret: str
    next: str
    proof: str | None  # where it was asked for


async def start(
    provider: Provider, flows: RedisFlows, *, redirect_uri: str, next_path: str, is_fresh: bool = False
) -> Started:
    """Begin a login; raises NotFound when there is no provider. A fresh one is asked for although somebody is known."""
    if not provider.is_configured:
        raise NotFound("Logging in with an OpenID provider is not set up here.", "Log in with a password.")
    cookie = new_secret()
    flow = {
        "state": new_secret(),
        "nonce": new_secret(),
        "verifier": new_secret(),
        "redirect_uri": redirect_uri,
        "next": next_path,
        "fresh": "yes" if is_fresh else "",
    }
    url = await provider.authorization_url(
        redirect_uri=redirect_uri,
        state=flow["state"],
        nonce=flow["nonce"],
        verifier=flow["verifier"],
        is_fresh=is_fresh,
    )
    await flows.keep(hash_of(cookie).hex(), flow)
    return Started(url, cookie)


async def finish(
    pool: Pool,
    config: AccountConfig,
    provider: Provider,
    flows: RedisFlows,
    *,
    cookie: str | None,
    answer: Answer,
    client: Client,
) -> Arrived:
    """A session for whoever the provider says came back to this browser. Raises NotLoggedIn."""
    if not provider.is_configured:
        raise NotFound("Logging in with an OpenID provider is not set up here.", "Log in with a password.")
    flow = await flows.take(hash_of(cookie).hex()) if cookie else None
    if flow is None or not hmac.compare_digest(flow["state"].encode(), (answer.state or "").encode(errors="replace")):
        raise failed()
    if answer.issuer is not None and answer.issuer != await provider.issuer():  # RFC 9207
        raise failed()
    if answer.code is None:
        error = answer.error or ""
        log.info("the OpenID provider refused a login", error=error if _ERROR_CODE.fullmatch(error) else "?")
        raise failed()
    tokens = await provider.exchange(answer.code, redirect_uri=flow["redirect_uri"], verifier=flow["verifier"])
    claims = await provider.claims(tokens, flow["nonce"])
    if flow.get("fresh") and not _is_fresh(claims):
        log.warning("the OpenID provider was asked for a fresh login and gave an old one")
        raise failed()
    wanted = [provider.config.username_claim, provider.config.admin_claim or "sub"]
    if any(claim_of(claims, name) is None for name in wanted):
        claims = await provider.more_claims(tokens, claims)
    async with connection(pool) as conn:
        user = await _user(conn, provider.config, await provider.issuer(), claims)
        secret, session = await open_session(
            conn,
            config,
            user,
            client,
            how="oidc",
            most_seconds=provider.config.session_seconds,
            provider_session=provider_session_of(claims),
        )
        proof = await proofs.draw(conn, session) if flow.get("fresh") else None
    return Arrived(user, secret, flow["next"], proof)


def _is_fresh(claims: Mapping[str, Any]) -> bool:
    """Whether it was a moment ago that they proved who they are; providers that do not say when are believed."""
    at = claims.get("auth_time")
    return at is None or (isinstance(at, int | float) and time.time() - at <= SECONDS)


def provider_session_of(claims: Mapping[str, Any]) -> str | None:
    """Which session of the provider's it is, where it says so."""
    found = claims.get("sid")
    return found if isinstance(found, str) and 0 < len(found) <= LONGEST_ID and "\0" not in found else None


async def _user(conn: Connection, config: OidcConfig, issuer: str, claims: Mapping[str, Any]) -> UserRow:
    subject = claims["sub"]
    role = role_of(config, claims)
    found = await accounts.by_identity(conn, issuer, subject)
    if found is None:
        return await _new_user(conn, config, issuer, claims, role or UserRole.USER)
    if role is not None and role != found.role:
        await _set_role(conn, found, role, issuer)
    user = await accounts.by_id_shared(conn, found.id)
    if user is None or user.disabled_at is not None:
        raise NotAllowed("This account is disabled.", "Ask an administrator.", code="disabled")
    return user


async def _new_user(
    conn: Connection, config: OidcConfig, issuer: str, claims: Mapping[str, Any], role: UserRole
) -> UserRow:
    base = username_of(config, claims)
    for name in (base, *(f"{base}-{number}" for number in range(2, 1000))):
        user = await accounts.insert(conn, name, role.value, issuer=issuer, subject=claims["sub"])
        if user is not None:
            await audit.record(conn, None, "user.create", user=user.id, username=name, role=role.value, how="oidc")
            return user
        same = await accounts.by_identity(conn, issuer, claims["sub"])
        if same is not None:  # made by another login of theirs at this moment
            return same
    raise Conflict("There are too many users of that name.", "Ask an administrator.")


async def _set_role(conn: Connection, user: UserRow, role: UserRole, issuer: str) -> None:
    try:
        await keep_an_administrator(conn, user.id, Change(role=role), issuer)
    except Conflict:
        log.warning("the provider would have demoted the last administrator", user=str(user.id))
        return
    await accounts.set_role(conn, user.id, role.value)
    await audit.record(conn, None, "user.role", user=user.id, role=role.value, how="oidc")


def role_of(config: OidcConfig, claims: Mapping[str, Any]) -> UserRole | None:
    """The role that the claims give, `user` without the claim; None when roles are given in CodeHub."""
    if config.admin_claim is None:
        return None
    found = claim_of(claims, config.admin_claim)
    values = found if isinstance(found, list) else [found]
    texts = [str(value).lower() if isinstance(value, bool) else value for value in values]
    return UserRole.ADMIN if config.admin_value in texts else UserRole.USER


def username_of(config: OidcConfig, claims: Mapping[str, Any]) -> str:
    """A name that can be had: from the claim, else made up from the subject."""
    claim = claim_of(claims, config.username_claim)
    name = _NOT_IN_NAMES.sub("-", claim if isinstance(claim, str) else "").strip("-._@+")[:_LONGEST_NAME]
    return name or f"user-{hashlib.sha256(claims['sub'].encode()).hexdigest()[:8]}"


def claim_of(claims: Mapping[str, Any], name: str) -> object:
    """The claim of that name; dots lead into objects unless there is a claim with the dots in its name."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
