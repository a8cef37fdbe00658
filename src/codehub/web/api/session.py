"""Logging in and out, and one's own sessions."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from codehub.db.accounts import UserRow
from codehub.errors import NotLoggedIn
from codehub.services import login as logins
from codehub.services import proofs, sessions
from codehub.services.actors import ActorKind, Scope, UserRole
from codehub.services.passwords import LONGEST
from codehub.signals.throttle import DEVICE_SECONDS, LoginThrottle
from codehub.web.auth import CurrentActor, SessionActor, session_of
from codehub.web.context import Context, InContext
from codehub.web.cookies import DEVICE, end_session, set_cookie, set_session, value_of
from codehub.web.csrf import check_same_origin, client_address, is_secure

router = APIRouter(tags=["session"])

LOGIN_PATH = "/api/v1/login"

Password = Annotated[str, Field(max_length=LONGEST)]


class Strict(BaseModel):
    """What is sent to us: a field that does not exist is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Credentials(Strict):
    """A username and a password."""

    username: Annotated[str, Field(max_length=255, examples=["ada"])]
    password: Password


class PasswordChange(Strict):
    """One's own password."""

    current: Password
    new: Password


class ShownUser(BaseModel):
    """A user."""

    id: UUID
    username: Annotated[str, Field(examples=["ada"])]
    role: UserRole
    disabled: bool
    disabled_at: datetime | None
    created_at: datetime
    login: Literal["password", "oidc", "none"]
    last_login_at: Annotated[datetime | None, Field(description="In lists, as far as the audit log reaches back.")]
    max_running: Annotated[int | None, Field(description="A limit of the user's own; null is everybody's.")]
    max_workspaces: int | None

    @classmethod
    def of(cls, user: UserRow, last_login_at: datetime | None = None) -> "ShownUser":
        login: Literal["password", "oidc", "none"] = "none"
        if user.issuer is not None:
            login = "oidc"
        elif user.password_hash is not None:
            login = "password"
        return cls(
            id=user.id,
            username=user.username,
            role=UserRole(user.role),
            disabled=user.disabled_at is not None,
            disabled_at=user.disabled_at,
            created_at=user.created_at,
            login=login,
            last_login_at=last_login_at,
            max_running=user.max_running,
            max_workspaces=user.max_workspaces,
        )


class Me(BaseModel):
    """Who is asking."""

    id: UUID
    username: Annotated[str, Field(examples=["ada"])]
    role: UserRole


class Proof(BaseModel):
    """That it is really them; for requests that ask for it, in the header Login-Proof."""

    proof: str
    seconds: Annotated[int, Field(description="For how long it counts.")] = proofs.SECONDS


class LoggedIn(Proof):
    """The answer to a login; the session is in the cookie."""

    user: Me


class Proving(Strict):
    """One's own password."""

    password: Password


class ShownSession(BaseModel):
    """Who asks, how they proved it, and until when that holds."""

    user: Me
    kind: ActorKind
    scope: Scope
    expires_at: datetime | None


class LoginOptions(BaseModel):
    """How one can log in here."""

    oidc: Annotated[bool, Field(description="Whether GET /login/oidc leads to an OpenID provider.")]
    first_start: Annotated[
        bool, Field(description="Nobody is logged in anywhere: the first administrator was told to whoever started it.")
    ]


class OwnSession(BaseModel):
    """One place where a user is logged in."""

    id: UUID
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    address: str | None
    user_agent: str | None
    current: bool


class OwnSessions(BaseModel):
    """All of them, last used first."""

    items: list[OwnSession]


@router.get("/login")
async def login_options(context: InContext) -> LoginOptions:
    """How one can log in here."""
    unused = await sessions.is_unused(context.pool)
    return LoginOptions(oidc=context.settings.oidc.issuer is not None, first_start=unused)


@router.post("/login")
async def login(given: Credentials, request: Request, response: Response, context: InContext) -> LoggedIn:
    """Log in with a password. The session is a cookie."""
    config = context.settings.accounts
    check_same_origin(request, config)  # else another site could log its visitor in to an account of its own
    done = await logins.login(
        context.pool,
        config,
        throttle_of(request),
        username=given.username,
        password=given.password,
        client=client_of(request, context),
        device=value_of(request, DEVICE),
    )
    await end_previous(request, context)
    secure = is_secure(request, config)
    set_session(response, done.secret, secure=secure, seconds=config.session_absolute_seconds)
    set_cookie(response, DEVICE, done.device, secure=secure, seconds=DEVICE_SECONDS, path=LOGIN_PATH)
    me = Me(id=done.user.id, username=done.user.username, role=UserRole(done.user.role))
    return LoggedIn(user=me, proof=await proofs.of_login(context.pool, done.session))


@router.post("/session/proof")
async def prove(given: Proving, actor: SessionActor, request: Request, context: InContext) -> Proof:
    """Give the password again, for what asks for a fresh proof: users, roles, passwords and tokens."""
    return Proof(proof=await proofs.by_password(context.pool, throttle_of(request), actor, given.password))


@router.post("/logout", status_code=204)
async def logout(
    actor: SessionActor, request: Request, response: Response, context: InContext, everywhere: bool = False
) -> None:
    """End this session, or all of one's own."""
    await sessions.logout(context.pool, actor, everywhere=everywhere)
    end_session(response, secure=is_secure(request, context.settings.accounts))


@router.get("/session")
async def session(actor: CurrentActor, context: InContext) -> ShownSession:
    """Who is asking."""
    return ShownSession(
        user=Me(id=actor.user_id, username=actor.username, role=actor.role),
        kind=actor.kind,
        scope=actor.scope,
        expires_at=await sessions.ends_at(context.pool, context.settings.accounts, actor),
    )


@router.post("/password", status_code=204)
async def change_password(given: PasswordChange, actor: SessionActor, request: Request, context: InContext) -> None:
    """Change one's own password; ends one's other sessions."""
    await logins.change_password(context.pool, throttle_of(request), actor, given.current, given.new)


@router.get("/sessions")
async def list_sessions(actor: SessionActor, context: InContext) -> OwnSessions:
    """Where one is logged in."""
    found = await sessions.mine(context.pool, context.settings.accounts, actor)
    items = [
        OwnSession(
            id=each.id,
            created_at=each.created_at,
            last_seen_at=each.last_seen_at,
            expires_at=each.ends_at,
            address=each.address,
            user_agent=each.user_agent,
            current=str(each.id) == actor.credential_id,
        )
        for each in found
    ]
    return OwnSessions(items=items)


@router.delete("/sessions/{session_id}", status_code=204)
async def revoke_session(session_id: UUID, actor: SessionActor, context: InContext) -> None:
    """Log out somewhere else; ends the tokens that were made there, too."""
    await sessions.revoke(context.pool, actor, session_id)


def client_of(request: Request, context: Context) -> sessions.Client:
    return sessions.Client(client_address(request, context.settings.accounts), request.headers.get("user-agent"))


def throttle_of(request: Request) -> LoginThrottle:
    throttle: LoginThrottle = request.app.state.throttle
    return throttle


async def end_previous(request: Request, context: Context) -> None:
    """A browser that logs in again leaves nothing behind that could still be used."""
    config = context.settings.accounts
    try:
        actor = await sessions.authenticate(
            context.pool, config, session=await session_of(request), address=client_address(request, config)
        )
    except NotLoggedIn:
        return
    await sessions.logout(context.pool, actor)
