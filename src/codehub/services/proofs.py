"""A fresh proof that it is really them: asked for before users, roles, passwords and tokens are made or changed.

Whoever logs in or gives the password again gets one, for some minutes. It is not in a cookie: the dashboard keeps it in
its page's memory, the command line in its process. So a page that can act as somebody with their cookie, as a
workspace's in path mode, has none (ADR 22). API tokens need none: they are no page's to use, and may do less.
"""

from datetime import timedelta
from uuid import UUID

from codehub.db import sessions
from codehub.db.pool import Connection, Pool, connection
from codehub.services import audit
from codehub.services.actors import Actor
from codehub.services.login import confirm_password
from codehub.services.sessions import hash_of, new_secret
from codehub.signals.throttle import LoginThrottle

SECONDS = 300


async def draw(conn: Connection, session: UUID) -> str:
    """For a session whose user has just proved who they are; the one before counts no more."""
    proof = new_secret()
    await sessions.set_proof(conn, session, hash_of(proof), timedelta(seconds=SECONDS))
    return proof


async def of_login(pool: Pool, session: UUID) -> str:
    async with connection(pool) as conn:
        return await draw(conn, session)


async def by_password(pool: Pool, throttle: LoginThrottle, actor: Actor, password: str) -> str:
    """Raises Invalid for a wrong one, and OverLimit after several."""
    await confirm_password(pool, throttle, actor, password)
    async with connection(pool) as conn:
        proof = await draw(conn, UUID(actor.credential_id))
        await audit.record(conn, actor, "session.proof")
    return proof
