"""Who asks, for every route: a session's cookie or `Authorization: Bearer`, else 401.

    CurrentActor    anybody logged in
    WritingActor    … with more than a read-only token
    SessionActor    … in a browser: what a program has no business with
    AdminActor      … as an administrator

A route cannot forget what protects it: with an unsafe method each of these also refuses tokens that may only read, and
cookies that another site made a browser send; with a safe one cookies that came for a part of a page. A WebSocket's
handshake counts as unsafe.
"""

from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from codehub.services import sessions
from codehub.services.actors import Actor
from codehub.web.context import of
from codehub.web.cookies import sessions_of
from codehub.web.csrf import SAFE_METHODS, check_asked_for, check_same_origin, client_address, is_secure

PROOF = "login-proof"  # services/proofs.py


async def current_actor(connection: HTTPConnection) -> Actor:
    """Who asks. Raises NotLoggedIn, or NotAllowed for what the credential cannot be used for."""
    context = of(connection)
    config = context.settings.accounts
    token = bearer_of(connection)
    session = await session_of(connection) if token is None else None
    unsafe = connection.scope.get("method") not in SAFE_METHODS
    if session is not None:
        if unsafe:
            check_same_origin(connection, config)
        else:
            check_asked_for(connection)
    actor = await sessions.authenticate(
        context.pool,
        config,
        session=session,
        token=token,
        proof=connection.headers.get(PROOF) if unsafe else None,
        address=client_address(connection, config),
    )
    if unsafe:
        actor.require_write()
    connection.scope.setdefault("state", {})["is_logged_in"] = True  # app.py tells the proxy
    return actor


async def session_of(connection: HTTPConnection) -> str | None:
    """The secret in the request's cookie: of several the one whose session is alive, none if that is no single one."""
    context = of(connection)
    config = context.settings.accounts
    found = sessions_of(connection, secure=is_secure(connection, config))
    return found[0] if len(found) == 1 else await sessions.only_alive(context.pool, config, found)


def bearer_of(connection: HTTPConnection) -> str | None:
    """The token in the Authorization header; None when there is none of this kind."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


CurrentActor = Annotated[Actor, Depends(current_actor)]


async def writing_actor(actor: CurrentActor) -> Actor:
    actor.require_write()
    return actor


async def session_actor(actor: CurrentActor) -> Actor:
    actor.require_session()
    return actor


async def admin_actor(actor: CurrentActor) -> Actor:
    actor.require_admin()
    return actor


WritingActor = Annotated[Actor, Depends(writing_actor)]
SessionActor = Annotated[Actor, Depends(session_actor)]
AdminActor = Annotated[Actor, Depends(admin_actor)]
