"""Sessions (SPEC section 11): who is asking, by a cookie or a token, and how that ends.

A secret is 256 random bits and only its SHA-256 is stored: what cannot be guessed needs no slow hash, and every request
looks it up. Every login draws a new one, so nobody can be made to log in to a session that somebody else knows.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from codehub.config import AccountConfig
from codehub.db import accounts, sessions, tokens, visits
from codehub.db.pool import Connection, Pool, connection
from codehub.db.sessions import Holder, SessionRow
from codehub.db.sharing import read_shared
from codehub.errors import NotFound, NotLoggedIn
from codehub.model.workspace import UserId
from codehub.services import audit
from codehub.services.actors import Actor, ActorKind, Scope, UserRole

_SECRET_BYTES = 32
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")  # as many bytes in URL-safe base64
_LONGEST_SECRET = 200  # longer ones are not ours
_MOST_SECRETS = 20  # that come with one request
_PIECE = 1000


@dataclass(frozen=True, slots=True)
class Client:
    """The other end of a request: what a session remembers of where it began."""

    address: str | None = None
    user_agent: str | None = None


def new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def is_secret(text: str) -> bool:
    """Whether it has the form of a new secret."""
    return _SECRET.fullmatch(text) is not None


def hash_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


async def authenticate(
    pool: Pool,
    config: AccountConfig,
    *,
    session: str | None = None,
    token: str | None = None,
    proof: str | None = None,
    address: str | None = None,
) -> Actor:
    """Who holds the secret of a session or of a token; a token that is given is what counts. Raises NotLoggedIn."""
    secret = session if token is None else token
    if not secret:
        raise NotLoggedIn("You are not logged in.", "Log in, or send a token in the Authorization header.")
    kind = ActorKind.USER if token is None else ActorKind.TOKEN
    holder = await _holder(pool, config, secret, kind) if len(secret) <= _LONGEST_SECRET else None
    if holder is None:
        raise NotLoggedIn(
            "The login has ended." if kind is ActorKind.USER else "The token is not valid, or no longer.",
            "Log in again." if kind is ActorKind.USER else "Make a new one.",
        )
    return Actor(
        user_id=holder.user_id,
        username=holder.username,
        role=UserRole(holder.role),
        kind=kind,
        scope=Scope(holder.scope),
        credential_id=str(holder.credential_id),
        address=address,
        is_proven=kind is ActorKind.USER and await _is_proven(pool, holder.credential_id, proof),
    )


async def only_alive(pool: Pool, config: AccountConfig, candidates: Sequence[str]) -> str | None:
    """That of the only session among these that is alive; None if none is, or several are."""
    asked = [each for each in candidates if is_secret(each)][:_MOST_SECRETS]
    found = await asyncio.gather(
        *(read_shared(pool, sessions.find, (hash_of(each), idle_of(config))) for each in asked)
    )
    alive = [secret for secret, holder in zip(asked, found, strict=True) if holder is not None]
    return alive[0] if len(alive) == 1 else None


async def _is_proven(pool: Pool, session: UUID, proof: str | None) -> bool:
    if not proof or not is_secret(proof):
        return False
    async with connection(pool) as conn:
        return await sessions.has_proof(conn, session, hash_of(proof))


async def _holder(pool: Pool, config: AccountConfig, secret: str, kind: ActorKind) -> Holder | None:
    if kind is ActorKind.TOKEN:
        holder = await read_shared(pool, tokens.find, hash_of(secret))
    else:
        holder = await read_shared(pool, sessions.find, (hash_of(secret), idle_of(config)))
    if holder is not None and holder.stale:
        touch = tokens.touch if kind is ActorKind.TOKEN else sessions.touch
        async with connection(pool) as conn:
            await touch(conn, holder.credential_id)
    return holder


async def begin(
    conn: Connection,
    config: AccountConfig,
    user: UserId,
    client: Client,
    *,
    most_seconds: float | None = None,
    provider_session: str | None = None,
) -> tuple[str, UUID]:
    """A new session, in the caller's transaction: its secret, which is nowhere else, and its id."""
    secret = new_secret()
    seconds = min(config.session_absolute_seconds, most_seconds or config.session_absolute_seconds)
    identity = await sessions.insert(
        conn,
        user,
        hash_of(secret),
        timedelta(seconds=seconds),
        address=client.address,
        user_agent=client.user_agent,
        provider_session=provider_session,
    )
    return secret, identity


async def is_alive(pool: Pool, config: AccountConfig, actor: Actor) -> bool:
    """Whether what the actor came with still holds: for whoever serves them longer than one request."""
    alive, _ = await _end(pool, config, actor)
    return alive


async def ends_at(pool: Pool, config: AccountConfig, actor: Actor) -> datetime | None:
    """When the actor's session or token ends if nothing happens; None is never."""
    return (await _end(pool, config, actor))[1]


async def _end(pool: Pool, config: AccountConfig, actor: Actor) -> tuple[bool, datetime | None]:
    async with connection(pool) as conn:
        if actor.kind is ActorKind.TOKEN:
            return await tokens.state(conn, UUID(actor.credential_id))
        end = await sessions.ends_at(conn, UUID(actor.credential_id), idle_of(config))
        return end is not None, end


async def is_unused(pool: Pool) -> bool:
    """Whether nobody is logged in anywhere, as after a first start: then a hint helps whoever comes."""
    async with connection(pool) as conn:
        return not await sessions.is_any(conn)


async def mine(pool: Pool, config: AccountConfig, actor: Actor) -> Sequence[SessionRow]:
    """The actor's sessions that have not ended."""
    async with connection(pool) as conn:
        return await sessions.of_user(conn, actor.user_id, idle_of(config))


async def revoke(pool: Pool, actor: Actor, session: UUID) -> None:
    """End one of the actor's sessions, and the tokens that were made in it: whoever was in it keeps nothing.

    Logging out leaves them: `codehub login` makes one and logs out.
    """
    async with connection(pool) as conn:
        await accounts.by_id_locked(conn, actor.user_id)
        await visits.tell_of_revocation(conn, actor.user_id)
        if not await sessions.delete(conn, session, actor.user_id):
            raise NotFound("There is no such session.")
        await tokens.revoke_made_with(conn, session, actor.user_id)
        await audit.record(conn, actor, "session.revoke", session=session)


async def logout(pool: Pool, actor: Actor, *, everywhere: bool = False) -> None:
    """End the actor's session, or all of them with the tokens that were made in them."""
    async with connection(pool) as conn:
        await visits.tell_of_revocation(conn, actor.user_id)
        if everywhere:
            await accounts.by_id_locked(conn, actor.user_id)
            await tokens.revoke_made_in_sessions(conn, actor.user_id)
            await sessions.delete_all(conn, actor.user_id)
        else:
            await sessions.delete(conn, UUID(actor.credential_id), actor.user_id)
        await audit.record(conn, actor, "session.logout", everywhere=everywhere)


async def prune(pool: Pool, config: AccountConfig) -> bool:
    """Forget sessions and visits that have ended, a piece at a time; whether there may be more."""
    async with connection(pool) as conn:
        forgotten = (await sessions.prune(conn, idle_of(config), _PIECE), await visits.prune(conn, _PIECE))
    return max(forgotten) >= _PIECE


def idle_of(config: AccountConfig) -> timedelta:
    return timedelta(seconds=config.session_idle_seconds)
