"""API tokens: for programs, named, for reading or for writing too, with or without an end; shown once.

One that is made with another token can do no more than that one, ends no later, and is revoked with it, so that
whoever found a token cannot keep what it gives. Revoking and making wait for each other at the user's row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.db import accounts, sessions, tokens, visits
from codehub.db.pool import Connection, Pool, connection
from codehub.db.rows import storable
from codehub.db.tokens import TokenRow
from codehub.errors import Invalid, NotFound, NotLoggedIn, OverLimit
from codehub.services import audit
from codehub.services.actors import Actor, ActorKind, Scope
from codehub.services.sessions import hash_of, new_secret

PREFIX = "chp_"  # lets people and scanners see what it is
MOST = 100  # of one user


@dataclass(frozen=True, slots=True)
class NewToken:
    """What was made; `secret` is kept nowhere else."""

    row: TokenRow
    secret: str


async def create(pool: Pool, actor: Actor, name: str, scope: Scope, lifetime: timedelta | None) -> NewToken:
    actor.require_proof()
    name = storable(name).strip()
    if not name:
        raise Invalid("A token needs a name.", "Name it after what will use it.")
    secret = f"{PREFIX}{new_secret()}"
    async with connection(pool) as conn:
        owner = await accounts.by_id_locked(conn, actor.user_id)
        if owner is None or owner.disabled_at is not None or not await _holds(conn, actor):
            raise NotLoggedIn("The login has ended.", "Log in again.")
        if await tokens.count(conn, actor.user_id) >= MOST:
            raise OverLimit(f"You have {MOST} tokens already.", "Revoke one that is no longer used.")
        row = await tokens.insert(
            conn,
            actor.user_id,
            hash_of(secret),
            name=name,
            scope=scope.value,
            lifetime=lifetime,
            parent=UUID(actor.credential_id),
        )
        await audit.record(conn, actor, "token.create", token=row.id, name=name, scope=scope.value)
    return NewToken(row, secret)


async def _holds(conn: Connection, actor: Actor) -> bool:
    """Whether what the actor came with has not been ended since."""
    if actor.kind is ActorKind.TOKEN:
        return (await tokens.state(conn, UUID(actor.credential_id)))[0]
    return await sessions.exists(conn, UUID(actor.credential_id), actor.user_id)


async def mine(pool: Pool, actor: Actor) -> Sequence[TokenRow]:
    """The actor's tokens that are not revoked, also those past their end."""
    async with connection(pool) as conn:
        return await tokens.of_user(conn, actor.user_id)


async def revoke(pool: Pool, actor: Actor, token: UUID) -> None:
    """End it, and whatever was made with it."""
    async with connection(pool) as conn:
        await accounts.by_id_locked(conn, actor.user_id)
        await visits.tell_of_revocation(conn, actor.user_id)
        if not await tokens.revoke(conn, token, actor.user_id):
            raise NotFound("There is no such token.")
        await audit.record(conn, actor, "token.revoke", token=token)
