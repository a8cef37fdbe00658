"""One-time login links: `codehub up` prints one, and whoever opens it on this machine is logged in as administrator.

A code is 128 random bits and works once, for ten minutes; only its hash is kept. It is bound to one account as that was
when the link was made: if the account is disabled, demoted or gets another password meanwhile, the link is void.
Accounts of an OpenID provider get none: logging in there is the provider's to decide.
"""

import secrets
from dataclasses import dataclass, field
from uuid import UUID

from codehub.config import AccountConfig
from codehub.db import accounts
from codehub.db.accounts import UserRow
from codehub.db.pool import Pool, connection
from codehub.errors import NotLoggedIn
from codehub.services.actors import UserRole
from codehub.services.login import open_session
from codehub.services.sessions import Client, hash_of
from codehub.signals.login_links import SECONDS, RedisLoginLinks

__all__ = ["PATH", "SECONDS", "LoginLink", "issue", "redeem"]

PATH = "api/v1/login/link"  # below the local URL
_CODE_BYTES = 16
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class LoginLink:
    """For one administrator. The code is for the terminal and kept nowhere else."""

    username: str
    code: str = field(repr=False)

    def url(self, base: str) -> str:
        return f"{base}{PATH}?code={self.code}"


async def issue(pool: Pool, links: RedisLoginLinks) -> LoginLink | None:
    """For the administrator who was made first; None if none of them can log in with a password."""
    async with connection(pool) as conn:
        admin = await accounts.first_administrator(conn)
    if admin is None:
        return None
    code = secrets.token_urlsafe(_CODE_BYTES)
    await links.keep(hash_of(code).hex(), {"user": str(admin.id), "password": _mark(admin)})
    return LoginLink(admin.username, code)


async def redeem(pool: Pool, config: AccountConfig, links: RedisLoginLinks, code: str, client: Client) -> str:
    """The secret of a new session. Raises NotLoggedIn for a code that was used, has expired or is void."""
    kept = await links.take(hash_of(code).hex()) if 0 < len(code) <= _LONGEST else None
    if kept is None:
        raise _used()
    async with connection(pool) as conn:
        user = await accounts.by_id_shared(conn, UUID(kept["user"]))
        if (
            user is None
            or user.disabled_at is not None
            or user.role != UserRole.ADMIN
            or _mark(user) != kept["password"]
        ):
            raise _used()
        secret, _ = await open_session(conn, config, user, client, how="one-time link")
        return secret


def _mark(user: UserRow) -> str:
    """Changes with the account's password, and tells nothing about it."""
    return hash_of(user.password_hash or "").hex()


def _used() -> NotLoggedIn:
    return NotLoggedIn(
        "This login link was used or has expired.", "Get a new one: codehub login-link", code="link_used"
    )
