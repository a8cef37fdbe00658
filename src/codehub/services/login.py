"""Logging in with a password, and changing it (SPEC section 11).

An unknown name, a wrong password, a disabled account and one without a password take the same time and get the same
answer. No database connection is held while a password is hashed.
"""

from dataclasses import dataclass
from uuid import UUID

import structlog

from codehub.config import AccountConfig
from codehub.db import accounts, sessions, tokens, visits
from codehub.db.accounts import UserRow
from codehub.db.pool import Connection, Pool, connection
from codehub.errors import Conflict, Invalid, NotFound, NotLoggedIn, Unavailable
from codehub.services import audit, passwords
from codehub.services.actors import Actor, ActorKind, UserRole
from codehub.services.sessions import Client, begin, new_secret
from codehub.signals.throttle import LoginThrottle

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A session that has just begun. Both secrets are for the browser's cookies and kept nowhere else."""

    user: UserRow
    secret: str
    session: UUID
    device: str  # tells the next login that this browser is known


async def login(
    pool: Pool,
    config: AccountConfig,
    throttle: LoginThrottle,
    *,
    username: str,
    password: str,
    client: Client,
    device: str | None = None,
) -> LoggedIn:
    """A new session for whoever knows the password. Raises NotLoggedIn, or OverLimit after failures."""
    attempt = await throttle.begin(username, client.address, device)
    try:
        user, secret, session = await _check(pool, config, username, password, client)
    except Unavailable:
        await throttle.forgive(attempt)  # an outage is nobody's failure
        raise
    if device is None or not await throttle.knows(username, device):
        device = new_secret()  # what somebody planted in a browser, or knows, is not given a meaning
    await throttle.succeeded(attempt, device)
    return LoggedIn(user, secret, session, device)


async def _check(
    pool: Pool, config: AccountConfig, username: str, password: str, client: Client
) -> tuple[UserRow, str, UUID]:
    async with connection(pool) as conn:
        user = await accounts.by_name(conn, username)
    stored = user.password_hash if user is not None and user.disabled_at is None else None
    right = await passwords.is_right(password, stored)
    if user is None or stored is None or not right:
        await _refuse(pool, user, client)
    assert user is not None
    assert stored is not None
    better = await passwords.hashed(password) if passwords.is_outdated(stored) else None
    async with connection(pool) as conn:
        read = accounts.by_id_shared if better is None else accounts.by_id_locked
        current = await read(conn, user.id)
        if current is None or current.disabled_at is not None or current.password_hash != stored:
            raise _wrong()  # it changed since it was looked at
        if better is not None:
            await accounts.set_password(conn, user.id, better)
        return current, *await open_session(conn, config, current, client, how="password")


async def open_session(
    conn: Connection,
    config: AccountConfig,
    user: UserRow,
    client: Client,
    *,
    how: str,
    most_seconds: float | None = None,
    provider_session: str | None = None,
) -> tuple[str, UUID]:
    """A session for a user who has proved who they are, in the caller's transaction: its secret and id."""
    secret, identity = await begin(
        conn, config, user.id, client, most_seconds=most_seconds, provider_session=provider_session
    )
    actor = Actor(
        user_id=user.id,
        username=user.username,
        role=UserRole(user.role),
        kind=ActorKind.USER,
        credential_id="",
        address=client.address,
    )
    await audit.record(conn, actor, "session.login", how=how)
    return secret, identity


async def _refuse(pool: Pool, user: UserRow | None, client: Client) -> None:
    """Whether there is such a user or not, the same is done, and so takes as long.

    A name that is nobody's is not recorded: it may be a password in the wrong field.
    """
    log.info("a login failed", address=client.address)
    async with connection(pool) as conn:
        known = user.id if user is not None else None
        await audit.record(conn, None, "session.login_failed", user=known, address=client.address)
    raise _wrong()


def _wrong() -> NotLoggedIn:
    return NotLoggedIn("The username or the password is wrong.", code="wrong_credentials")


async def confirm_password(pool: Pool, throttle: LoginThrottle, actor: Actor, password: str) -> UserRow:
    """That whoever is in this session knows its user's password. Raises Invalid, or OverLimit after failures."""
    async with connection(pool) as conn:
        user = await accounts.by_id(conn, actor.user_id)
    if user is None:
        raise NotFound("There is no such user.")
    if user.password_hash is None:
        raise Conflict("This account has no password.", "Ask an administrator to set one.", code="no_password")
    attempt = await throttle.begin_in_session(actor.credential_id)
    if not await passwords.is_right(password, user.password_hash):
        raise Invalid("The current password is wrong.", code="wrong_password")
    await throttle.succeeded(attempt)
    return user


async def change_password(pool: Pool, throttle: LoginThrottle, actor: Actor, current: str, new: str) -> None:
    """The actor's own; ends their other sessions, with the tokens that were made in these.

    A wrong current one is a failure of this session alone: the public count of logins is not this one's to fill, nor
    can strangers who fill that one keep anybody from changing a password.
    """
    passwords.check_rules(new, actor.username)
    user = await confirm_password(pool, throttle, actor, current)
    hashed = await passwords.hashed(new)
    async with connection(pool) as conn:
        locked = await accounts.by_id_locked(conn, actor.user_id)
        if locked is None or locked.password_hash != user.password_hash or locked.disabled_at is not None:
            raise Conflict("The account was changed meanwhile.", "Try again.")
        await accounts.set_password(conn, actor.user_id, hashed)
        await visits.tell_of_revocation(conn, actor.user_id)
        await tokens.revoke_made_in_sessions(conn, actor.user_id, but=UUID(actor.credential_id))
        await sessions.delete_all(conn, actor.user_id, but=UUID(actor.credential_id))
        await audit.record(conn, actor, "user.password", user=actor.user_id)
