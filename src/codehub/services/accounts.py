"""Users: made, listed and changed by administrators.

There is always an administrator who can log in. Whoever is disabled is out at once: their sessions and tokens end, and
what they have running steps down to STANDBY, now or as soon as it is at rest; nothing of theirs is lost.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from codehub.config import AccountConfig
from codehub.db import accounts, listing, sessions, tokens, visits
from codehub.db.accounts import UserRow
from codehub.db.pool import Connection, Pool, connection
from codehub.errors import Conflict, Invalid, NotAllowed, NotFound
from codehub.model.sentences import number_of
from codehub.model.wishes import NEEDS_CONFIRMATION
from codehub.model.workspace import UserId, WorkspaceId
from codehub.services import audit, passwords
from codehub.services.actors import Actor, UserRole
from codehub.services.workspaces import deleting
from codehub.services.workspaces.terms import Terms

_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
FIRST_ADMIN = "admin"
LIMITS = ("max_running", "max_workspaces")
_MOST_NAMES = 5


class Leaving(StrEnum):
    """What becomes of a deleted user's workspaces."""

    TRASH = "trash"
    PURGE = "purge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be different about a user; None leaves it as it is.

    `limits` are those that are meant, of LIMITS: None takes a limit of the user's own away, so that everybody's holds.
    """

    role: UserRole | None = None
    disabled: bool | None = None
    password: str | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FirstAdmin:
    """The administrator that was just made; `password` is what was generated, None when it was given."""

    username: str
    password: str | None


async def create(pool: Pool, actor: Actor, username: str, password: str | None, role: UserRole) -> UserRow:
    """A new user; without a password they can log in only once one is set.

    A token that was found must not become somebody who can log in: they would outlive it.
    """
    actor.require_admin()
    actor.require_proof()
    if role is UserRole.ADMIN or password is not None:
        actor.require_session()
    check_username(username)
    hashed = None
    if password is not None:
        passwords.check_rules(password, username)
        hashed = await passwords.hashed(password)
    async with connection(pool) as conn:
        user = await accounts.insert(conn, username, role.value, password_hash=hashed)
        if user is None:
            raise Conflict(f"There is a user {username} already.", "Choose another name.", code="username_taken")
        await audit.record(conn, actor, "user.create", user=user.id, username=username, role=role.value)
    return user


def check_username(username: str) -> None:
    if not _USERNAME.fullmatch(username):
        raise Invalid(
            "That is no username.",
            "It begins with a letter or digit and has at most 64 letters, digits and . _ @ + -",
            code="bad_username",
        )


async def one(pool: Pool, actor: Actor, user: UUID) -> UserRow:
    actor.require_admin()
    async with connection(pool) as conn:
        found = await accounts.by_id(conn, user)
    if found is None:
        raise _nobody()
    return found


async def page(
    pool: Pool, actor: Actor, text: str, after: tuple[datetime, UUID] | None, limit: int
) -> tuple[Sequence[UserRow], Mapping[UUID, datetime | None]]:
    """Users in the order in which they were made, after the given place; and when each logged in last."""
    actor.require_admin()
    async with connection(pool) as conn:
        found = await accounts.page(conn, text, after, limit)
        return found, await accounts.last_logins(conn, [user.id for user in found])


async def change(pool: Pool, actor: Actor, user: UUID, wanted: Change, *, issuer: str | None = None) -> UserRow:
    """Role, password, disabled or not: all of it or nothing. `issuer` is the OpenID provider that people can log in at.

    What would let somebody in as an administrator is not done for a token, which may have been found.
    """
    actor.require_admin()
    if wanted.role is not None or wanted.password is not None or wanted.disabled is False:
        actor.require_proof()
    if wanted.role is UserRole.ADMIN or wanted.password is not None:
        actor.require_session()
    hashed = None
    if wanted.password is not None:
        if user == actor.user_id:
            raise NotAllowed("Your own password is changed with the current one.", "Use POST /api/v1/password.")
        passwords.check_rules(wanted.password, (await one(pool, actor, user)).username)
        hashed = await passwords.hashed(wanted.password)
    async with connection(pool) as conn:
        await keep_an_administrator(conn, user, wanted, issuer)
        was = await accounts.by_id_locked(conn, user)
        if was is None:
            raise _nobody()
        if wanted.disabled is False and was.disabled_at is not None and was.role == UserRole.ADMIN:
            actor.require_session()
        if wanted.role is not None and wanted.role != was.role:
            await accounts.set_role(conn, user, wanted.role.value)
            await audit.record(conn, actor, "user.role", user=user, role=wanted.role.value)
        if hashed is not None:
            await _set_password(conn, was, hashed)
            await audit.record(conn, actor, "user.password", user=user)
        if wanted.disabled is not None and wanted.disabled != (was.disabled_at is not None):
            await _set_disabled(conn, was, disabled=wanted.disabled)
            await audit.record(conn, actor, "user.disable" if wanted.disabled else "user.enable", user=user)
        limits = {name: wanted.limits.get(name, getattr(was, name)) for name in LIMITS}
        if limits != {name: getattr(was, name) for name in LIMITS}:
            await accounts.set_limits(conn, user, **limits)
            await audit.record(conn, actor, "user.limits", None, user=user, **limits)
        changed = await accounts.by_id(conn, user)
    assert changed is not None
    if wanted.disabled:  # they are out by now, whatever becomes of this; the coordinator repeats it
        await step_down_disabled(pool)
    return changed


async def delete(
    pool: Pool, terms: Terms, actor: Actor, user: UUID, workspaces: Leaving | None, *, issuer: str | None = None
) -> None:
    """For good. What they own goes to the trash, or is deleted for good, which must be said where there is any; then
    what is in the trash already goes with it.

    They are out at once. Conflict while something of theirs is busy: then it is asked again, and goes on. Conflict also
    where the trash would lose a home, because it cannot be archived: nobody has confirmed that for each of them.
    """
    actor.require_admin()
    actor.require_session()
    actor.require_proof()
    if user == actor.user_id:
        raise NotAllowed("You cannot delete your own account.", "Another administrator can.")
    purge = workspaces is Leaving.PURGE
    left_of = listing.remaining_of if purge else listing.living_of
    async with connection(pool) as conn:
        await keep_an_administrator(conn, user, Change(disabled=True), issuer)
        was = await accounts.by_id_locked(conn, user)
        if was is None:
            raise _nobody()
        owned = await listing.living_of(conn, UserId(user))
        if owned and workspaces is None:
            raise Conflict(
                f"{was.username} has {number_of(len(owned), 'workspace')}.",
                "Say what becomes of them: workspaces=trash or workspaces=purge.",
                code="has_workspaces",
                details={"workspaces": len(owned)},
            )
        await _set_disabled(conn, was, disabled=True)
        theirs = await left_of(conn, UserId(user))
    await _delete_workspaces(pool, terms, actor, theirs, purge=purge, of=was.username)
    async with connection(pool) as conn:
        if await left_of(conn, UserId(user)):  # made meanwhile, by whoever was not out yet
            raise Conflict("A workspace was created meanwhile.", "Delete the account again.", code="workspaces_busy")
        await accounts.delete(conn, user)
        await audit.record(conn, actor, "user.delete", None, user=user, username=was.username, workspaces=workspaces)


async def _delete_workspaces(
    pool: Pool, terms: Terms, actor: Actor, owned: Sequence[WorkspaceId], *, purge: bool, of: str
) -> None:
    """Each of them that can go; then Conflict, if any could not."""
    busy: list[WorkspaceId] = []
    losing: list[WorkspaceId] = []
    for identity in owned:
        try:
            await deleting.delete(pool, terms, actor, identity, purge=purge, confirmed=purge)
        except NotFound:
            continue
        except Conflict as refused:
            (losing if refused.code == NEEDS_CONFIRMATION else busy).append(identity)
    if losing:
        async with connection(pool) as conn:
            shown = await listing.by_ids(conn, losing)
        named = [{"id": str(one), "name": shown[one].name if one in shown else str(one)} for one in losing]
        names = ", ".join(each["name"] for each in named[:_MOST_NAMES]) + (", …" if len(named) > _MOST_NAMES else "")
        raise Conflict(
            f"{number_of(len(named), 'workspace')} of {of} cannot be archived, and their homes would be lost: {names}.",
            "The account is disabled. Recover or delete each of these workspaces, or delete all of them for good: "
            "workspaces=purge.",
            code="workspaces_need_confirmation",
            details={"workspaces": named},
        )
    if busy:
        raise Conflict(
            f"{number_of(len(busy), 'workspace')} of {of} cannot be deleted at this moment.",
            "The account is disabled. Delete it again when they are at rest.",
            code="workspaces_busy",
            details={"workspaces": len(busy)},
        )


async def reset_password(pool: Pool, username: str, password: str) -> UserRow:
    """For whoever has the database itself: a password for somebody who has forgotten theirs, or who never had one."""
    passwords.check_rules(password, username)
    hashed = await passwords.hashed(password)
    async with connection(pool) as conn:
        found = await accounts.by_name(conn, username)
        user = None if found is None else await accounts.by_id_locked(conn, found.id)
        if user is None:
            raise NotFound(f"There is no user {username}.")
        await _set_password(conn, user, hashed)
        await audit.record(conn, None, "user.password", user=user.id, username=user.username, on_the_machine=True)
    return user


async def keep_an_administrator(conn: Connection, user: UUID, wanted: Change, issuer: str | None) -> None:
    """Refuse what would leave nobody who could take it back."""
    if wanted.role is not UserRole.USER and not wanted.disabled:
        return
    if await accounts.administrators(conn, issuer) == [user]:
        raise Conflict(
            "This is the last administrator who can log in.", "Make another one first.", code="last_administrator"
        )


async def _set_disabled(conn: Connection, user: UserRow, *, disabled: bool) -> None:
    await accounts.set_disabled(conn, user.id, disabled=disabled)
    if disabled:
        await _end_logins(conn, user)


async def _set_password(conn: Connection, user: UserRow, hashed: str) -> None:
    await accounts.set_password(conn, user.id, hashed)
    await _end_logins(conn, user)


async def _end_logins(conn: Connection, user: UserRow) -> None:
    await visits.tell_of_revocation(conn, user.id)
    await sessions.delete_all(conn, user.id)
    await tokens.revoke_all(conn, user.id)


async def step_down_disabled(pool: Pool) -> int:
    """Let what disabled users have running step down where it has come to rest; how many. Repeating it is harmless."""
    async with connection(pool) as conn:
        return await accounts.step_down_disabled(conn)


class FirstAdminMaking:
    """May be tried again after a failure: whether the commit was heard or not, the password is the same."""

    def __init__(self, pool: Pool, config: AccountConfig) -> None:
        self._pool = pool
        self._given = None if config.admin_password is None else config.admin_password.get_secret_value()
        self._generated = passwords.generate() if self._given is None else None
        self._hashed: str | None = None

    async def attempt(self) -> FirstAdmin | None:
        """The first administrator, where there is none yet; None where there is. Any number of processes may ask."""
        if self._hashed is None:
            async with connection(self._pool) as conn:
                if await accounts.has_administrator(conn):
                    return None
            self._hashed = await passwords.hashed(self._generated or self._given or "")
        async with connection(self._pool) as conn:
            await accounts.hold_all(conn)
            if await accounts.has_administrator(conn):
                ours = await accounts.name_by_hash(conn, self._hashed)  # of an attempt that had no answer
                return None if ours is None else FirstAdmin(ours, self._generated)
            taken = await accounts.names_like(conn, FIRST_ADMIN)  # by somebody of an earlier version
            names = [FIRST_ADMIN, *(f"{FIRST_ADMIN}-{number}" for number in range(2, len(taken) + 3))]
            username = next(name for name in names if name not in taken)
            user = await accounts.insert(conn, username, UserRole.ADMIN.value, password_hash=self._hashed)
            assert user is not None
            await audit.record(conn, None, "user.create", user=user.id, username=username, role=UserRole.ADMIN.value)
        return FirstAdmin(username, self._generated)


async def first_admin(pool: Pool, config: AccountConfig) -> FirstAdmin | None:
    return await FirstAdminMaking(pool, config).attempt()


def _nobody() -> NotFound:
    return NotFound("There is no such user.")
