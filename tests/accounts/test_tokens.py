"""API tokens: shown once, hashed, ending, and worth no more than what they were made with."""

import asyncio
from datetime import datetime, timedelta

import httpx
import pytest

from codehub.db.pool import Pool, connection
from codehub.errors import NotLoggedIn
from codehub.services import tokens
from codehub.services.actors import Scope, UserRole
from tests.accounts.people import Person, add_person, session_headers, set_password, token_headers


@pytest.fixture
async def ada(pool: Pool) -> Person:
    return await add_person(pool)


@pytest.fixture
async def as_ada(client: httpx.AsyncClient, pool: Pool, ada: Person) -> httpx.AsyncClient:
    client.headers.update(await session_headers(pool, ada))
    return client


async def status_of(client: httpx.AsyncClient, token: str) -> int:
    headers = {"Cookie": "", "Authorization": f"Bearer {token}"}
    return (await client.get("/api/v1/session", headers=headers)).status_code


async def test_a_token_is_shown_once_and_works_until_it_is_revoked(as_ada: httpx.AsyncClient) -> None:
    answer = await as_ada.post("/api/v1/tokens", json={"name": " backup ", "scope": "write", "expires_in_days": 30})
    assert answer.status_code == 201
    made = answer.json()
    token = made.pop("token")
    assert token.startswith("chp_")
    assert len(token) == 4 + 43
    lasts = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert (made["name"], made["scope"], lasts) == ("backup", "write", timedelta(days=30))
    assert await status_of(as_ada, token) == 200
    (listed,) = (await as_ada.get("/api/v1/tokens")).json()["items"]
    assert listed | {"last_used_at": None} == made
    assert listed["last_used_at"] is not None
    assert (await as_ada.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
    assert await status_of(as_ada, token) == 401
    assert (await as_ada.get("/api/v1/tokens")).json() == {"items": []}
    assert (await as_ada.delete(f"/api/v1/tokens/{made['id']}")).status_code == 404


async def test_what_is_not_said(as_ada: httpx.AsyncClient) -> None:
    made = (await as_ada.post("/api/v1/tokens", json={"name": "t"})).json()
    assert (made["scope"], made["expires_at"]) == ("read", None), "the least, for ever"


async def test_a_read_token_writes_nothing(as_ada: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    headers = {"Cookie": "", **await token_headers(pool, ada, Scope.READ)}
    assert (await as_ada.get("/api/v1/tokens", headers=headers)).status_code == 200
    for answer in (
        await as_ada.post("/api/v1/tokens", headers=headers, json={"name": "more", "scope": "write"}),
        await as_ada.delete("/api/v1/tokens/00000000-0000-0000-0000-000000000000", headers=headers),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only_token")


async def test_other_peoples_tokens_are_not_there(as_ada: httpx.AsyncClient, pool: Pool) -> None:
    made = (await as_ada.post("/api/v1/tokens", json={"name": "t"})).json()
    bobs = await session_headers(pool, await add_person(pool, "bob"))
    assert (await as_ada.get("/api/v1/tokens", headers=bobs)).json() == {"items": []}
    assert (await as_ada.delete(f"/api/v1/tokens/{made['id']}", headers=bobs)).status_code == 404
    assert await status_of(as_ada, made["token"]) == 200


@pytest.mark.parametrize("days", [1, 3650, None])
async def test_a_token_made_with_a_token_ends_no_later(
    client: httpx.AsyncClient, pool: Pool, ada: Person, days: int | None
) -> None:
    lasts = timedelta(days=7)
    headers = await token_headers(pool, ada, Scope.WRITE, lasts)
    body = {"name": "child", "scope": "write", "expires_in_days": days}
    made = (await client.post("/api/v1/tokens", headers=headers, json=body)).json()
    child = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert child <= (timedelta(days=1) if days == 1 else lasts)


async def test_a_token_made_with_one_that_has_no_end(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    headers = await token_headers(pool, ada)
    made = (await client.post("/api/v1/tokens", headers=headers, json={"name": "c"})).json()
    assert made["expires_at"] is None


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": ""}, {"name": "  "}, {"name": "x" * 256}, {"name": "t", "scope": "admin"},
        {"name": "t", "expires_in_days": 0}, {"name": "t", "expires_in_days": 4000}, {"name": "t", "user": "bob"},
    ],
)  # fmt: skip
async def test_a_token_that_cannot_be_made(as_ada: httpx.AsyncClient, body: dict[str, object]) -> None:
    answer = await as_ada.post("/api/v1/tokens", json=body)
    assert answer.status_code == 422
    assert set(answer.json()) == {"error"}
    assert (await as_ada.get("/api/v1/tokens")).json() == {"items": []}


async def test_there_is_a_limit(as_ada: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    async with connection(pool) as conn:
        await conn.execute(
            "INSERT INTO tokens (id, user_id, name, token_hash, scope) "
            "SELECT gen_random_uuid(), %s, 't', int8send(n), 'read' FROM generate_series(1, %s) n",
            [ada.id, tokens.MOST],
        )
    assert (await as_ada.post("/api/v1/tokens", json={"name": "one more"})).status_code == 429


async def made_with(client: httpx.AsyncClient, headers: dict[str, str]) -> tuple[str, str]:
    """A new token, made with these: its id and itself."""
    body = {"name": "t", "scope": "write"}
    made = await client.post("/api/v1/tokens", headers={"Cookie": "", **headers}, json=body)
    assert made.status_code == 201
    return made.json()["id"], made.json()["token"]


async def test_what_was_made_with_a_token_ends_with_it(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    session = await session_headers(pool, ada)
    identity, first = await made_with(client, session)
    _, second = await made_with(client, {"Authorization": f"Bearer {first}"})
    _, third = await made_with(client, {"Authorization": f"Bearer {second}"})
    _, other = await made_with(client, session)
    assert (await client.delete(f"/api/v1/tokens/{identity}", headers=session)).status_code == 204
    assert [await status_of(client, each) for each in (first, second, third, other)] == [401, 401, 401, 200]


async def test_tokens_end_with_their_session_when_all_are_ended(
    client: httpx.AsyncClient, pool: Pool, ada: Person
) -> None:
    here, there, over = [await session_headers(pool, ada) for _ in range(3)]
    made = [(await made_with(client, each))[1] for each in (here, there, over)]
    made.append((await made_with(client, {"Authorization": f"Bearer {made[1]}"}))[1])
    assert (await client.post("/api/v1/logout", headers=over)).status_code == 204
    assert [await status_of(client, each) for each in made] == [200] * 4, "a browser that leaves leaves them"
    assert (await client.post("/api/v1/logout?everywhere=true", headers=here)).status_code == 204
    assert [await status_of(client, each) for each in made] == [401, 401, 200, 401]


async def test_tokens_end_with_their_session_when_it_is_revoked(
    client: httpx.AsyncClient, pool: Pool, ada: Person
) -> None:
    there = await session_headers(pool, ada)
    (row,) = (await client.get("/api/v1/sessions", headers=there)).json()["items"]
    here = await session_headers(pool, ada)
    mine, theirs = [(await made_with(client, each))[1] for each in (here, there)]
    of_theirs = (await made_with(client, {"Authorization": f"Bearer {theirs}"}))[1]
    assert (await client.delete(f"/api/v1/sessions/{row['id']}", headers=here)).status_code == 204
    assert [await status_of(client, each) for each in (mine, theirs, of_theirs)] == [200, 401, 401]


async def test_a_token_is_worth_what_its_user_is_now(client: httpx.AsyncClient, pool: Pool) -> None:
    """Not what they were when it was made."""
    token = await token_headers(pool, await add_person(pool, "root", UserRole.ADMIN))
    assert (await client.get("/api/v1/users", headers=token)).status_code == 200
    async with connection(pool) as conn:
        await conn.execute("UPDATE users SET role = 'user' WHERE username = 'root'")
    assert (await client.get("/api/v1/users", headers=token)).status_code == 403


async def test_a_new_password_ends_what_was_made_elsewhere(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    await set_password(pool, ada, "correct horse battery")
    here, there = await session_headers(pool, ada), await session_headers(pool, ada)
    mine, theirs = [(await made_with(client, each))[1] for each in (here, there)]
    body = {"current": "correct horse battery", "new": "another horse battery"}
    assert (await client.post("/api/v1/password", headers=here, json=body)).status_code == 204
    assert [await status_of(client, each) for each in (mine, theirs)] == [200, 401]


async def test_nothing_is_made_with_what_has_ended(pool: Pool, ada: Person) -> None:
    with pytest.raises(NotLoggedIn):
        await tokens.create(pool, ada.actor, "late", Scope.READ, None)  # authenticated before its session ended


async def test_the_limit_holds_for_many_at_once(as_ada: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    async with connection(pool) as conn:
        await conn.execute(
            "INSERT INTO tokens (id, user_id, name, token_hash, scope) "
            "SELECT gen_random_uuid(), %s, 't', int8send(n), 'read' FROM generate_series(1, %s) n",
            [ada.id, tokens.MOST - 3],
        )
    answers = await asyncio.gather(*(as_ada.post("/api/v1/tokens", json={"name": "t"}) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [429] * 9


async def test_what_is_done_with_a_token_is_in_the_audit_log_as_such(
    client: httpx.AsyncClient, pool: Pool, ada: Person
) -> None:
    await client.post("/api/v1/tokens", headers=await token_headers(pool, ada), json={"name": "c"})
    async with connection(pool) as conn:
        rows = await (await conn.execute("SELECT actor_kind::text, action, host(address) FROM audit_log")).fetchall()
    assert rows == [("token", "token.create", "192.0.2.7")]
