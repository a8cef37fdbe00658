"""A fresh proof: without one a session's cookie makes and changes nobody who may log in."""

import asyncio
from typing import Any

import httpx
import pytest

from codehub.db.pool import Connection, Pool
from codehub.services.actors import UserRole
from tests.accounts.people import Person, add_person, session_headers, set_password, token_headers

PASSWORD = "correct horse battery"
ASKED = {
    "a user": ("POST", "/users", {"username": "new"}),
    "an administrator": ("POST", "/users", {"username": "new", "role": "admin"}),
    "a role": ("PATCH", "/users/{other}", {"role": "admin"}),
    "a demotion": ("PATCH", "/users/{other}", {"role": "user"}),
    "a password": ("PATCH", "/users/{other}", {"password": "another long password"}),
    "somebody who was out": ("PATCH", "/users/{other}", {"disabled": False}),
    "a user who goes": ("DELETE", "/users/{other}", None),
    "a token": ("POST", "/tokens", {"name": "t", "scope": "write"}),
}


@pytest.fixture
async def root(pool: Pool) -> Person:
    person = await add_person(pool, "root", UserRole.ADMIN)
    await set_password(pool, person, PASSWORD)
    return person


@pytest.fixture
async def other(pool: Pool) -> Person:
    return await add_person(pool, "other", UserRole.ADMIN)


async def ask(client: httpx.AsyncClient, case: str, other: Person, headers: dict[str, str]) -> httpx.Response:
    method, path, body = ASKED[case]
    return await client.request(method, "/api/v1" + path.format(other=other.id), json=body, headers=headers)


def without_proof(headers: dict[str, str]) -> dict[str, str]:
    """What a page that shares the cookie can send."""
    return {name: value for name, value in headers.items() if name != "Login-Proof"}


@pytest.mark.parametrize("case", ASKED)
async def test_a_cookie_alone_is_not_enough(
    client: httpx.AsyncClient, pool: Pool, root: Person, other: Person, case: str
) -> None:
    headers = await session_headers(pool, root)
    for proof in (None, "", "x", "A" * 43):
        sent = without_proof(headers) | ({} if proof is None else {"Login-Proof": proof})
        answer = await ask(client, case, other, sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "proof_required")
    assert (await ask(client, case, other, headers)).is_success


async def test_a_proof_is_of_one_session(client: httpx.AsyncClient, pool: Pool, root: Person, other: Person) -> None:
    mine, elsewhere = await session_headers(pool, root), await session_headers(pool, root)
    mixed = mine | {"Login-Proof": elsewhere["Login-Proof"]}
    assert (await ask(client, "a user", other, mixed)).status_code == 403


async def test_it_is_a_matter_of_minutes(
    client: httpx.AsyncClient, pool: Pool, owner: Connection, root: Person, other: Person
) -> None:
    headers = await session_headers(pool, root)
    await owner.execute("UPDATE sessions SET proof_until = proof_until - interval '5 minutes'")
    assert (await ask(client, "a user", other, headers)).status_code == 403


async def prove(client: httpx.AsyncClient, headers: dict[str, str], password: str) -> httpx.Response:
    return await client.post("/api/v1/session/proof", json={"password": password}, headers=headers)


async def test_the_password_gives_one(client: httpx.AsyncClient, pool: Pool, root: Person, other: Person) -> None:
    headers = without_proof(await session_headers(pool, root))
    wrong = await prove(client, headers, "not that one")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "wrong_password")
    given: dict[str, Any] = (await prove(client, headers, PASSWORD)).json()
    assert given["seconds"] == 300
    assert (await ask(client, "a user", other, headers | {"Login-Proof": given["proof"]})).status_code == 201


async def test_guessing_is_slowed_down(client: httpx.AsyncClient, pool: Pool, root: Person) -> None:
    headers = await session_headers(pool, root)
    answers = await asyncio.gather(*(prove(client, headers, "not that one") for _ in range(8)))
    assert sorted(each.status_code for each in answers) == [422] * 5 + [429] * 3


async def test_a_login_gives_one_and_the_command_line_sends_it(
    client: httpx.AsyncClient, pool: Pool, root: Person, other: Person
) -> None:
    answer = await client.post("/api/v1/login", json={"username": "root", "password": PASSWORD})
    cookie = "; ".join(header.split(";")[0] for header in answer.headers.get_list("set-cookie"))
    headers = {"Cookie": cookie, "Login-Proof": answer.json()["proof"]}
    client.cookies.clear()
    assert (await ask(client, "a token", other, headers)).status_code == 201


async def test_a_token_lets_no_administrator_in_again(
    client: httpx.AsyncClient, pool: Pool, owner: Connection, root: Person, other: Person
) -> None:
    """One that was found must not bring back an account whose password somebody knows."""
    headers, path = await token_headers(pool, root), f"/api/v1/users/{other.id}"
    await owner.execute("UPDATE users SET disabled_at = now() WHERE id = %s", [other.id])
    refused = await client.patch(path, json={"disabled": False}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "session_only")
    await owner.execute("UPDATE users SET role = 'user' WHERE id = %s", [other.id])
    assert (await client.patch(path, json={"disabled": False}, headers=headers)).status_code == 200


async def test_disabling_and_looking_need_none(
    client: httpx.AsyncClient, pool: Pool, root: Person, other: Person
) -> None:
    """Whoever locks somebody out is in a hurry."""
    headers = without_proof(await session_headers(pool, root))
    path = f"/api/v1/users/{other.id}"
    assert (await client.patch(path, json={"disabled": True}, headers=headers)).status_code == 200
    assert (await client.get(path, headers=headers)).status_code == 200


async def test_a_token_needs_none_and_may_do_less(
    client: httpx.AsyncClient, pool: Pool, root: Person, other: Person
) -> None:
    headers = await token_headers(pool, root)
    found = {case: (await ask(client, case, other, headers)).status_code for case in ("a user", "a role", "a password")}
    assert found == {"a user": 201, "a role": 403, "a password": 403}
