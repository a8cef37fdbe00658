"""Users, for administrators."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from codehub.services import accounts
from codehub.services.accounts import Leaving
from codehub.services.actors import UserRole
from codehub.web.api.answers import errors
from codehub.web.api.cursors import cursor_of, place_of
from codehub.web.api.schemas import Search
from codehub.web.api.session import Password, ShownUser, Strict
from codehub.web.auth import AdminActor
from codehub.web.context import InContext

router = APIRouter(tags=["users"])


OwnLimit = Annotated[
    int | None, Field(ge=0, le=1_000_000, strict=True, description="A limit of the user's own; null takes it away.")
]


class UserRequest(Strict):
    """A new user. Without a password they cannot log in with one."""

    username: Annotated[str, Field(min_length=1, max_length=64, examples=["ada"])]
    password: Password | None = None
    role: UserRole = UserRole.USER


class UserChange(Strict):
    """What is to be different; what is left out stays as it is."""

    role: UserRole | None = None
    disabled: bool | None = None
    password: Password | None = None
    max_running: OwnLimit = None
    max_workspaces: OwnLimit = None


class Users(BaseModel):
    """A page of users in the order in which they were made."""

    items: list[ShownUser]
    next_cursor: str | None


@router.get("/users")
async def list_users(
    actor: AdminActor,
    context: InContext,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    q: Annotated[Search | None, Query(description="Only those with this in their names.")] = None,
) -> Users:
    """Every user, a page at a time."""
    after = place_of(cursor) if cursor else None
    found, logins = await accounts.page(context.pool, actor, q or "", after, limit + 1)
    shown = [ShownUser.of(user, logins.get(user.id)) for user in found[:limit]]
    more = len(found) > limit
    return Users(items=shown, next_cursor=cursor_of(shown[-1].created_at, shown[-1].id) if more else None)


@router.post("/users", status_code=201)
async def create_user(given: UserRequest, actor: AdminActor, context: InContext) -> ShownUser:
    """A new user. Administrators are not made with a token."""
    return ShownUser.of(await accounts.create(context.pool, actor, given.username, given.password, given.role))


@router.get("/users/{user_id}")
async def show_user(user_id: UUID, actor: AdminActor, context: InContext) -> ShownUser:
    """One user."""
    return ShownUser.of(await accounts.one(context.pool, actor, user_id))


@router.patch("/users/{user_id}")
async def change_user(user_id: UUID, given: UserChange, actor: AdminActor, context: InContext) -> ShownUser:
    """Another role, another password, disabled or enabled again.

    A disabled user's sessions and tokens end at once and their workspaces stop; enabling brings back neither. A new
    password ends sessions and tokens, too. Passwords and the role `admin` are not given with a token, nor is an
    administrator enabled with one; one's own password is changed only by `POST /password`. Limits hold from now on;
    nobody who runs is stopped by them.
    """
    limits = given.model_dump(include=given.model_fields_set & set(accounts.LIMITS))
    wanted = accounts.Change(role=given.role, disabled=given.disabled, password=given.password, limits=limits)
    issuer = context.settings.oidc.issuer
    return ShownUser.of(await accounts.change(context.pool, actor, user_id, wanted, issuer=issuer))


@router.delete("/users/{user_id}", status_code=204, responses=errors(404, 409))
async def delete_user(
    user_id: UUID,
    actor: AdminActor,
    context: InContext,
    workspaces: Annotated[Leaving | None, Query(description="What becomes of their workspaces.")] = None,
) -> None:
    """Delete an account for good. Not with a token.

    They are out at once. The answer is 409 `has_workspaces` when it was not said what becomes of their workspaces, and
    409 `workspaces_busy` while something is under way with one: ask again then. It is 409
    `workspaces_need_confirmation` when the trash would lose homes that cannot be archived: the details name these
    workspaces. Recover or delete each of them, or purge.
    """
    issuer = context.settings.oidc.issuer
    await accounts.delete(context.pool, context.terms, actor, user_id, workspaces, issuer=issuer)
