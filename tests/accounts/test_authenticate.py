"""Who is asking: what a secret is worth, and when it stops being worth anything."""

from datetime import timedelta

import pytest

from codehub.config import Settings
from codehub.db.pool import Pool, connection
from codehub.errors import NotLoggedIn
from codehub.services import sessions
from codehub.services.actors import ActorKind, Scope, UserRole
from tests.accounts.people import Person, add_person, session_headers, token_headers

CONFIG = Settings.load().accounts


async def session_of(pool: Pool, person: Person, lifetime: timedelta = timedelta(days=1)) -> str:
    return (await session_headers(pool, person, lifetime))["Cookie"].partition("=")[2]


async def token_of(pool: Pool, person: Person, scope: Scope = Scope.WRITE, lifetime: timedelta | None = None) -> str:
    return (await token_headers(pool, person, scope, lifetime))["Authorization"].partition(" ")[2]


async def test_a_session_is_its_user(pool: Pool) -> None:
    ada = await add_person(pool, "ada", UserRole.ADMIN)
    actor = await sessions.authenticate(pool, CONFIG, session=await session_of(pool, ada), address="192.0.2.9")
    assert (actor.user_id, actor.username, actor.role, actor.kind) == (ada.id, "ada", UserRole.ADMIN, ActorKind.USER)
    assert (actor.scope, actor.address) == (Scope.WRITE, "192.0.2.9")


async def test_a_token_is_its_user_within_its_scope(pool: Pool) -> None:
    ada = await add_person(pool)
    actor = await sessions.authenticate(pool, CONFIG, token=await token_of(pool, ada, Scope.READ))
    assert (actor.user_id, actor.kind, actor.scope) == (ada.id, ActorKind.TOKEN, Scope.READ)


@pytest.mark.parametrize("secret", ["", "x", "chp_" + "a" * 43, "a" * 100_000, "\ud800"])
async def test_anything_else_is_nobody(pool: Pool, secret: str) -> None:
    ada = await add_person(pool)
    await session_of(pool, ada)
    for kind in ("session", "token"):
        with pytest.raises(NotLoggedIn):
            await sessions.authenticate(pool, CONFIG, **{kind: secret})


async def test_a_secret_is_of_one_kind_only(pool: Pool) -> None:
    ada = await add_person(pool)
    with pytest.raises(NotLoggedIn):
        await sessions.authenticate(pool, CONFIG, token=await session_of(pool, ada))
    with pytest.raises(NotLoggedIn):
        await sessions.authenticate(pool, CONFIG, session=await token_of(pool, ada))


async def test_a_wrong_token_is_not_made_up_for_by_a_cookie(pool: Pool) -> None:
    ada = await add_person(pool)
    with pytest.raises(NotLoggedIn):
        await sessions.authenticate(pool, CONFIG, session=await session_of(pool, ada), token="")


async def test_only_hashes_are_stored(pool: Pool) -> None:
    ada = await add_person(pool)
    secrets = [await session_of(pool, ada), await token_of(pool, ada)]
    async with connection(pool) as conn:
        for table in ("sessions", "tokens"):
            dump = str(await (await conn.execute(f"SELECT row_to_json(t)::text FROM {table} t")).fetchall())
            assert all(secret not in dump and secret.encode().hex() not in dump for secret in secrets)


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("session", "UPDATE sessions SET expires_at = now()"),
        ("session", "UPDATE sessions SET last_seen_at = now() - interval '7 days'"),
        ("session", "UPDATE users SET disabled_at = now()"),
        ("session", "DELETE FROM sessions"),
        ("token", "UPDATE tokens SET expires_at = now()"),
        ("token", "UPDATE tokens SET revoked_at = now()"),
        ("token", "UPDATE users SET disabled_at = now()"),
    ],
)
async def test_everything_ends(pool: Pool, kind: str, end: str) -> None:
    ada = await add_person(pool)
    secret = {kind: await (session_of if kind == "session" else token_of)(pool, ada)}
    actor = await sessions.authenticate(pool, CONFIG, **secret)
    assert await sessions.is_alive(pool, CONFIG, actor)
    async with connection(pool) as conn:
        await conn.execute(end)
    with pytest.raises(NotLoggedIn):
        await sessions.authenticate(pool, CONFIG, **secret)
    assert not await sessions.is_alive(pool, CONFIG, actor)


@pytest.mark.parametrize(("table", "column"), [("sessions", "last_seen_at"), ("tokens", "last_used_at")])
async def test_use_is_noted_once_a_minute(pool: Pool, table: str, column: str) -> None:
    ada = await add_person(pool)
    secret = await (session_of if table == "sessions" else token_of)(pool, ada)

    async def use(ago: str) -> bool:
        """Whether a use that follows one so long ago is noted."""
        async with connection(pool) as conn:
            await conn.execute(f"UPDATE {table} SET {column} = now() - %s::interval", [ago])
        await sessions.authenticate(pool, CONFIG, **{table[:-1]: secret})
        async with connection(pool) as conn:
            noted = await conn.execute(f"SELECT {column} > now() - interval '10 seconds' FROM {table}")
            return await noted.fetchone() == (True,)

    assert not await use("59 seconds")
    assert await use("61 seconds")


async def test_what_has_ended_is_pruned_and_nothing_else(pool: Pool) -> None:
    ada = await add_person(pool)
    kept = await session_of(pool, ada)
    await session_of(pool, ada, timedelta(seconds=-1))
    idle = await session_of(pool, ada)
    async with connection(pool) as conn:
        await conn.execute(
            "UPDATE sessions SET last_seen_at = now() - interval '8 days' WHERE token_hash = %s",
            [sessions.hash_of(idle)],
        )
    assert not await sessions.prune(pool, CONFIG), "no more"
    async with connection(pool) as conn:
        assert await (await conn.execute("SELECT count(*) FROM sessions")).fetchone() == (1,)
    await sessions.authenticate(pool, CONFIG, session=kept)
