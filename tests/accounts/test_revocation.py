"""A login that ends is told to whoever has its user inside, in the moment in which it ends."""

import json
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import pytest

from codehub.config import Settings
from codehub.db.pool import Connection, Pool
from codehub.model.workspace import WorkspaceId
from codehub.services import accounts, sessions, tokens, visits
from codehub.services.actors import Actor, Scope, UserRole
from codehub.services.sessions import hash_of
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.db.support import add_workspace

Ending = Callable[[Pool, Actor, Person], Awaitable[object]]


async def actor_of(pool: Pool, person: Person) -> Actor:
    secret = (await session_headers(pool, person))["Cookie"].partition("=")[2]
    return await sessions.authenticate(pool, Settings.load().accounts, session=secret)


async def _revoke_token(pool: Pool, actor: Actor, _root: Person) -> None:
    made = await tokens.create(pool, person_proven(actor), "t", Scope.WRITE, None)
    await tokens.revoke(pool, actor, made.row.id)


def person_proven(actor: Actor) -> Actor:
    return Actor(**{name: getattr(actor, name) for name in actor.__slots__} | {"is_proven": True})


ENDINGS: dict[str, Ending] = {
    "logging out": lambda pool, actor, _: sessions.logout(pool, actor),
    "logging out everywhere": lambda pool, actor, _: sessions.logout(pool, actor, everywhere=True),
    "a session elsewhere": lambda pool, actor, _: sessions.revoke(pool, actor, UUID(actor.credential_id)),
    "a token": _revoke_token,
    "another password": lambda pool, actor, root: accounts.change(
        pool, root.actor, actor.user_id, accounts.Change(password="a much longer one")
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_who_is_inside_is_looked_at_at_once(database: str, pool: Pool, owner: Connection, ending: str) -> None:
    ada, root = await add_person(pool, "ada"), await add_person(pool, "root", UserRole.ADMIN)
    running = await add_workspace(owner, owner_user_id=ada.id, phase="RUNNING")
    await add_workspace(owner, owner_user_id=ada.id)  # nobody is in it
    actor = await actor_of(pool, ada)
    assert await _told(database, lambda: ENDINGS[ending](pool, actor, root)) == {running}


async def test_an_administrators_visit_too(database: str, pool: Pool, owner: Connection) -> None:
    ada, root = await add_person(pool, "ada"), await add_person(pool, "root", UserRole.ADMIN)
    running = await add_workspace(owner, owner_user_id=ada.id, phase="RUNNING")
    actor = await actor_of(pool, root)
    assert await visits.let_in(pool, actor, running, ada.id)
    assert await _told(database, lambda: sessions.logout(pool, actor)) == {running}
    by_token = (await token_headers(pool, root))["Authorization"].removeprefix("Bearer ")
    row = await (await owner.execute("SELECT id FROM tokens WHERE token_hash = %s", [hash_of(by_token)])).fetchone()
    assert row is not None
    program = await sessions.authenticate(pool, Settings.load().accounts, token=by_token)
    assert await visits.let_in(pool, program, running, ada.id)
    assert await _told(database, lambda: tokens.revoke(pool, program, row[0])) == {running}


async def _told(database: str, act: Callable[[], Awaitable[object]]) -> set[WorkspaceId]:
    """Of which workspaces, while it was done."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as listener:
        await listener.execute("LISTEN ws_sse")
        await act()
        heard = listener.notifies(timeout=5, stop_after=1)
        return {WorkspaceId(UUID(json.loads(each.payload)["id"])) async for each in heard}
