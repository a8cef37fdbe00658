"""An OpenID provider that logs somebody out: which sessions end, and what is no such request."""

import asyncio
import base64
import json
import time
from typing import Any

import httpx
import pytest

from codehub.db.pool import Connection, Pool
from codehub.signals.connect import Redis
from codehub.web.context import Context
from tests.accounts.people import add_person, session_headers
from tests.accounts.providers import BASE_URL, START, app_of, log_in, tell

LOGOUT = "/api/v1/logout/oidc"
EVENT = "http://schemas.openid.net/event/backchannel-logout"


def logout_token(issuer: str, **claims: object) -> str:
    answer = httpx.post(f"{issuer}/logout_token", json=claims)
    assert answer.status_code == 200
    return answer.text


async def send(browser: httpx.AsyncClient, token: str) -> int:
    """As the provider does: a form, from elsewhere, without any cookie."""
    async with httpx.AsyncClient(transport=browser._transport, base_url=BASE_URL) as provider:
        return (await provider.post(LOGOUT, data={"logout_token": token})).status_code


async def is_in(browser: httpx.AsyncClient) -> bool:
    status = (await browser.get("/api/v1/session")).status_code
    assert status in (200, 401)
    return status == 200


async def test_the_subjects_sessions_end(
    browser: httpx.AsyncClient, strict: str, pool: Pool, owner: Connection
) -> None:
    assert (await log_in(browser)).status_code == 303
    proof = (await log_in(browser, f"{START}?fresh=true&next=/account")).headers["location"].partition("#proof=")[2]
    made = await browser.post("/api/v1/tokens", json={"name": "ci", "scope": "read"}, headers={"Login-Proof": proof})
    assert made.status_code == 201
    somebody = await session_headers(pool, await add_person(pool, "somebody"))
    assert await send(browser, logout_token(strict, sub="subject-1")) == 204
    assert not await is_in(browser)
    browser.cookies.clear()
    assert (await browser.get("/api/v1/session", headers=somebody)).status_code == 200, "nobody else's"
    token = {"Authorization": f"Bearer {made.json()['token']}"}
    assert (await browser.get("/api/v1/session", headers=token)).status_code == 200, "tokens go on"
    noted = await owner.execute(
        "SELECT details->>'how' FROM audit_log WHERE action = 'session.logout' AND actor_kind = 'system'"
    )
    assert await noted.fetchall() == [("provider",)]


async def test_one_session_of_several_ends(browser: httpx.AsyncClient, strict: str) -> None:
    async with httpx.AsyncClient(transport=browser._transport, base_url=BASE_URL) as second:
        for each, session in ((browser, "first"), (second, "second")):
            tell(strict, claims={"sub": "subject-1", "preferred_username": "ada", "sid": session})
            assert (await log_in(each)).status_code == 303
        for wrong in ({"sid": "third"}, {"sid": "first", "sub": "another"}, {"sub": "another"}):
            assert await send(browser, logout_token(strict, **wrong)) == 204, "they have ended already"
        assert (await is_in(browser), await is_in(second)) == (True, True)
        assert await send(browser, logout_token(strict, sid="first")) == 204
        assert (await is_in(browser), await is_in(second)) == (False, True)
        assert await send(browser, logout_token(strict, sid="second", sub="subject-1")) == 204
        assert not await is_in(second)


async def test_a_session_that_does_not_know_where_it_came_from_may_be_meant(
    browser: httpx.AsyncClient, strict: str
) -> None:
    assert (await log_in(browser)).status_code == 303, "its ID token names no session"
    assert await send(browser, logout_token(strict, sid="first", sub="subject-1")) == 204
    assert not await is_in(browser)


BAD: dict[str, dict[str, Any]] = {
    "issuer": {"iss": "https://another.example.com"},
    "no issuer": {"iss": None},
    "audience": {"aud": "another client"},
    "no audience": {"aud": None},
    "no iat": {"iat": None},
    "an iat that is none": {"iat": "now"},
    "old": {"iat": int(time.time()) - 3600},
    "from the future": {"iat": int(time.time()) + 3600},
    "expired": {"exp": int(time.time()) - 120},
    "no jti": {"jti": None},
    "a long jti": {"jti": "j" * 300},
    "no events": {"events": None},
    "another event": {"events": {"https://example.com/event": {}}},
    "events that are none": {"events": [EVENT]},
    "an event that is none": {"events": {EVENT: "yes"}},
    "nonce": {"nonce": "n"},
    "about nobody": {"sub": None},
    "a number": {"sub": 7},
    "an empty session": {"sid": ""},
    "a zero byte": {"sub": "subject-1\0"},
}  # fmt: skip


ODD_HEADERS: dict[str, dict[str, Any]] = {
    "crit is no list": {"alg": "RS256", "crit": 1},
    "crit holds a list": {"alg": "RS256", "kid": "one", "crit": [[]]},
    "crit names nothing": {"alg": "RS256", "kid": "one", "crit": ["x"]},
    "kid is a list": {"alg": "RS256", "kid": ["one"]},
    "kid is an object": {"alg": "RS256", "kid": {}},
    "alg is a list": {"alg": ["RS256"], "kid": "one"},
    "alg is an object": {"alg": {}, "kid": "one"},
    "alg is none": {"kid": "one"},
    "a key in it": {"alg": "RS256", "jwk": 1, "x5c": 1},
    "b64": {"alg": "RS256", "kid": "one", "b64": False, "crit": ["b64"]},
}


@pytest.mark.parametrize("header", [*ODD_HEADERS.values(), [], 1, None, "x", {}], ids=str)
@pytest.mark.parametrize("payload", [b"{}", b"[]", b"\xff"])
async def test_a_header_of_any_shape_is_refused(browser: httpx.AsyncClient, header: Any, payload: bytes) -> None:
    parts = (json.dumps(header).encode(), payload, b"signed")
    token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    assert await send(browser, token) in (400, 429)


@pytest.mark.parametrize("case", BAD)
async def test_what_is_no_logout_token_ends_nothing(browser: httpx.AsyncClient, strict: str, case: str) -> None:
    assert (await log_in(browser)).status_code == 303
    assert await send(browser, logout_token(strict, **({"sub": "subject-1"} | BAD[case]))) == 400
    assert await is_in(browser)


async def test_what_the_provider_did_not_sign_ends_nothing(browser: httpx.AsyncClient, strict: str) -> None:
    assert (await log_in(browser)).status_code == 303
    right = logout_token(strict, sub="subject-1")
    tell(strict, lie="another key")
    head, body, signature = right.split(".")
    for token in ("", "rubbish", "a.b.c", f"{head}.{body}.", f"{head}.{body}.{signature[:-8]}AAAAAAAA", "x" * 100_000):
        assert await send(browser, token) == 400
    assert await send(browser, logout_token(strict, sub="subject-1")) == 400
    assert await is_in(browser)


async def test_bodies_that_are_no_form(browser: httpx.AsyncClient, strict: str) -> None:
    token = logout_token(strict, sub="subject-1")
    twice = f"logout_token={token}&logout_token={token}".encode()
    for body in (b"", b"\xff", b'{"logout_token": "x"}', b"&".join([b"a=b"] * 100), twice):
        answer = await browser.post(LOGOUT, content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
        assert answer.headers["cache-control"] == "no-store"


async def test_it_counts_once(browser: httpx.AsyncClient, strict: str, redis: Redis) -> None:
    token = logout_token(strict, sub="subject-1")
    assert sorted(await asyncio.gather(*(send(browser, token) for _ in range(4)))) == [204, 400, 400, 400]
    (kept,) = await redis.keys("codehub:logout-token:*")
    assert 300 <= await redis.ttl(kept) <= 420, "longer than it would be accepted"
    assert (await log_in(browser)).status_code == 303
    assert await send(browser, token) == 400
    assert await is_in(browser)


async def test_one_that_could_not_be_obeyed_may_come_again(
    browser: httpx.AsyncClient, strict: str, owner: Connection
) -> None:
    """A provider sends it again after a 5xx: it must not be refused as sent before."""
    assert (await log_in(browser)).status_code == 303
    token = logout_token(strict, sub="subject-1")
    await owner.execute("REVOKE DELETE ON sessions FROM codehub_api")
    try:
        with pytest.raises(Exception, match="permission denied"):
            await send(browser, token)
    finally:
        await owner.execute("GRANT DELETE ON sessions TO codehub_api")
    assert await send(browser, token) == 204
    assert not await is_in(browser)


async def test_guessing_is_slowed_down_but_not_the_providers_own(browser: httpx.AsyncClient, strict: str) -> None:
    for _ in range(120):
        assert await send(browser, logout_token(strict, sub="nobody")) == 204
    statuses = [await send(browser, "rubbish") for _ in range(105)]
    assert statuses[:100] == [400] * 100
    assert 429 in statuses[100:]


async def test_a_provider_that_is_away_is_an_outage(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = app_of(context, monkeypatch, OIDC_ISSUER="http://127.0.0.1:1", OIDC_CLIENT_ID="x")
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as provider:
        assert (await provider.post(LOGOUT, data={"logout_token": "x"})).status_code == 503
