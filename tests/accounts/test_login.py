"""Logging in over HTTP: what is answered, what the cookie is like, and what ends it."""

import io
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import argon2
import httpx
import pytest

from codehub import logs
from codehub.config import LogConfig
from codehub.db import accounts
from codehub.db.pool import Pool, connection
from codehub.errors import OverLimit
from codehub.metrics import Metrics
from codehub.services import passwords
from codehub.signals.connect import open_redis
from codehub.signals.throttle import LoginThrottle
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.cookies import DEVICE
from tests.accounts.people import Person, add_person, session_headers, set_password, token_headers
from tests.accounts.providers import BASE_URL
from tests.support import free_port

PASSWORD = "correct horse battery"


@pytest.fixture
async def ada(pool: Pool) -> Person:
    person = await add_person(pool)
    await set_password(pool, person, PASSWORD)
    return person


async def log_in(client: httpx.AsyncClient, username: str = "ada", password: str = PASSWORD) -> httpx.Response:
    return await client.post("/api/v1/login", json={"username": username, "password": password})


def cookie_of(answer: httpx.Response, name: str = "codehub_session") -> str:
    (cookie,) = [each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{name}=")]
    return str(cookie)


def throttle_of(client: httpx.AsyncClient) -> LoginThrottle:
    """The one that this client's application counts with."""
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    throttle: LoginThrottle = transport.app.state.throttle  # type: ignore[attr-defined]  # any ASGI application, to httpx
    return throttle


async def test_a_login_gives_a_session_in_a_cookie(client: httpx.AsyncClient, ada: Person) -> None:
    answer = await log_in(client)
    assert answer.status_code == 200
    given = answer.json()
    assert given.pop("proof") not in str(answer.headers), "it is no cookie"
    assert given == {"user": {"id": str(ada.id), "username": "ada", "role": "user"}, "seconds": 300}
    session = await client.get("/api/v1/session")
    assert session.status_code == 200
    assert (session.json()["user"]["username"], session.json()["kind"], session.json()["scope"]) == (
        "ada",
        "user",
        "write",
    )


async def test_the_cookie_is_for_this_host_and_out_of_reach_of_scripts(client: httpx.AsyncClient, ada: Person) -> None:
    parts = {part.strip().lower() for part in cookie_of(await log_in(client)).split(";")[1:]}
    assert parts == {"httponly", "samesite=lax", "path=/", "max-age=2592000"}, "no domain, and no Secure without TLS"


async def test_the_username_is_the_same_in_any_case(client: httpx.AsyncClient, ada: Person) -> None:
    assert (await log_in(client, "ADA")).status_code == 200


@pytest.mark.parametrize(
    ("username", "password"), [("ada", "wrong password"), ("nobody", PASSWORD), ("ad\0a", PASSWORD)]
)
async def test_a_wrong_login_does_not_say_what_is_wrong(
    client: httpx.AsyncClient, ada: Person, username: str, password: str
) -> None:
    answer = await log_in(client, username, password)
    assert answer.status_code == 401
    assert answer.json() == {
        "error": {"code": "wrong_credentials", "message": "The username or the password is wrong."}
    }
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("how", ["UPDATE users SET disabled_at = now()", "UPDATE users SET password_hash = NULL"])
async def test_an_account_that_cannot_log_in_looks_like_none(
    client: httpx.AsyncClient, pool: Pool, ada: Person, how: str
) -> None:
    async with connection(pool) as conn:
        await conn.execute(how)
    answer = await log_in(client)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "wrong_credentials")


async def test_an_unknown_user_takes_as_long_as_a_wrong_password(ada: Person, pool: Pool) -> None:
    async with connection(pool) as conn:
        stored = (await (await conn.execute("SELECT password_hash FROM users")).fetchall())[0][0]

    async def seconds(hashed: str | None) -> float:
        started = time.process_time()  # what it costs, however busy the machine is
        assert not await passwords.is_right("wrong password", hashed)
        return time.process_time() - started

    times = {
        name: min([await seconds(each) for _ in range(5)])
        for name, each in {"known": stored, "unknown": None, "foreign": "$2b$12$abc"}.items()
    }
    assert max(times.values()) < 2 * min(times.values()), times


async def test_each_login_is_a_new_session_and_ends_the_browsers_last(
    client: httpx.AsyncClient, pool: Pool, ada: Person
) -> None:
    first = cookie_of(await log_in(client)).split(";")[0]
    second = cookie_of(await log_in(client)).split(";")[0]
    assert first != second
    client.cookies.clear()
    assert (await client.get("/api/v1/session", headers={"Cookie": first})).status_code == 401
    assert (await client.get("/api/v1/session", headers={"Cookie": second})).status_code == 200


async def test_a_session_that_somebody_planted_is_not_taken_over(client: httpx.AsyncClient, ada: Person) -> None:
    client.cookies.set("codehub_session", "planted", domain="codehub.test", path="/")
    assert "planted" not in cookie_of(await log_in(client))


async def test_names_are_ascii(pool: Pool) -> None:
    await add_person(pool, "kim")
    await add_person(pool, "\u212airk")  # of an earlier version
    async with connection(pool) as conn:
        assert await accounts.by_name(conn, "KIM") is not None
        for name in ("\u212aim", "\u212airk"):  # the sign of Kelvin is no K, whatever PostgreSQL's lower() says
            assert await accounts.by_name(conn, name) is None


async def test_a_device_that_somebody_planted_is_not_taken_over(client: httpx.AsyncClient, ada: Person) -> None:
    planted = {"Cookie": f"{DEVICE}=known-to-another"}
    first = await client.post("/api/v1/login", headers=planted, json={"username": "ada", "password": PASSWORD})
    drawn = first.cookies[DEVICE]
    assert drawn != "known-to-another"
    again = {"Cookie": f"{DEVICE}={drawn}"}
    second = await client.post("/api/v1/login", headers=again, json={"username": "ada", "password": PASSWORD})
    assert second.cookies[DEVICE] == drawn


async def test_logging_out_ends_this_session_only(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    here, there = await session_headers(pool, ada), await session_headers(pool, ada)
    answer = await client.post("/api/v1/logout", headers=here)
    assert answer.status_code == 204
    assert "max-age=0" in cookie_of(answer).lower()
    assert (await client.get("/api/v1/session", headers=here)).status_code == 401
    assert (await client.get("/api/v1/session", headers=there)).status_code == 200


async def test_logging_out_everywhere(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    bob = await add_person(pool, "bob")
    here, there, bobs = [await session_headers(pool, each) for each in (ada, ada, bob)]
    assert (await client.post("/api/v1/logout?everywhere=true", headers=here)).status_code == 204
    statuses = [(await client.get("/api/v1/session", headers=each)).status_code for each in (here, there, bobs)]
    assert statuses == [401, 401, 200]


async def test_one_sees_where_one_is_logged_in_and_ends_it(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    bob = await add_person(pool, "bob")
    here, there, bobs = [await session_headers(pool, each) for each in (ada, ada, bob)]
    items = (await client.get("/api/v1/sessions", headers=here)).json()["items"]
    assert sorted(item["current"] for item in items) == [False, True]
    assert {(item["address"], item["user_agent"]) for item in items} == {("192.0.2.1", "a test")}
    (other,) = [item["id"] for item in items if not item["current"]]
    assert (await client.delete(f"/api/v1/sessions/{other}", headers=bobs)).status_code == 404, "not bob's to end"
    assert (await client.delete(f"/api/v1/sessions/{other}", headers=here)).status_code == 204
    assert (await client.get("/api/v1/session", headers=there)).status_code == 401


async def test_the_login_itself_is_listed_with_the_address_and_the_browser(
    client: httpx.AsyncClient, ada: Person
) -> None:
    client.headers["User-Agent"] = "Mozilla \x7f" + "x" * 1000
    assert (await log_in(client)).status_code == 200
    (item,) = (await client.get("/api/v1/sessions")).json()["items"]
    assert item["address"] == "192.0.2.7"
    assert item["user_agent"].startswith("Mozilla")
    assert len(item["user_agent"]) <= 400


@pytest.mark.parametrize("path", ["GET sessions", "POST logout", "POST password"])
async def test_a_token_has_no_sessions(client: httpx.AsyncClient, pool: Pool, ada: Person, path: str) -> None:
    method, _, name = path.partition(" ")
    body = {"current": PASSWORD, "new": "another password"} if name == "password" else None
    answer = await client.request(method, f"/api/v1/{name}", headers=await token_headers(pool, ada), json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "session_only")


async def test_while_redis_is_away_people_can_log_in(context: Context, ada: Person) -> None:
    async with open_redis(f"redis://127.0.0.1:{free_port()}") as away:
        app = create_app({}, Metrics(), context=replace(context, redis=away))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE_URL) as client:
            assert (await log_in(client)).status_code == 200
            statuses = [401]
            while statuses[-1] == 401 and len(statuses) < 12:  # delays double: soon they are longer than a hash takes
                statuses.append((await log_in(client, password="wrong password")).status_code)
            assert statuses[-1] == 429, "and are slowed down all the same"


class TestPasswordChange:
    NEW = "another password"

    async def change(
        self, client: httpx.AsyncClient, headers: dict[str, str], current: str, new: str
    ) -> httpx.Response:
        return await client.post("/api/v1/password", headers=headers, json={"current": current, "new": new})

    async def test_it_ends_the_other_sessions(self, client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
        here, there = await session_headers(pool, ada), await session_headers(pool, ada)
        assert (await self.change(client, here, PASSWORD, self.NEW)).status_code == 204
        assert (await client.get("/api/v1/session", headers=here)).status_code == 200
        assert (await client.get("/api/v1/session", headers=there)).status_code == 401
        assert (await log_in(client)).status_code == 401
        assert (await log_in(client, password=self.NEW)).status_code == 200

    @pytest.mark.parametrize(
        ("current", "new", "code"),
        [
            ("not the password", NEW, "wrong_password"),
            (PASSWORD, "too short", "weak_password"),
            (PASSWORD, "x" * 1025, "invalid"),
        ],
    )
    async def test_it_is_refused(
        self, client: httpx.AsyncClient, pool: Pool, ada: Person, current: str, new: str, code: str
    ) -> None:
        here, there = await session_headers(pool, ada), await session_headers(pool, ada)
        answer = await self.change(client, here, current, new)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)
        assert (await client.get("/api/v1/session", headers=there)).status_code == 200
        assert (await log_in(client)).status_code == 200

    async def test_the_username_is_no_password(self, client: httpx.AsyncClient, pool: Pool) -> None:
        person = await add_person(pool, "Administrator")
        await set_password(pool, person, PASSWORD)
        answer = await self.change(client, await session_headers(pool, person), PASSWORD, "administrator")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "weak_password")

    async def test_strangers_who_fail_to_log_in_do_not_hinder_it(
        self, client: httpx.AsyncClient, pool: Pool, ada: Person
    ) -> None:
        throttle = throttle_of(client)
        here = await session_headers(pool, ada)
        for number in range(5):
            await throttle.begin("ada", f"198.51.100.{number}")
        with pytest.raises(OverLimit):
            await throttle.begin("ada", "198.51.100.9")
        assert (await self.change(client, here, PASSWORD, self.NEW)).status_code == 204

    async def test_guessing_it_is_slowed_down(self, client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
        here = await session_headers(pool, ada)
        for number in range(12):
            answer = await self.change(client, here, "wrong password", self.NEW)
            if answer.status_code != 422:  # delays double: soon they are longer than a hash takes
                assert number >= 5, "five failures first"
                break
        else:
            raise AssertionError("never slowed down")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_attempts")
        assert int(answer.headers["Retry-After"]) >= 1


async def test_old_hashes_are_made_anew_at_the_next_login(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD)
    async with connection(pool) as conn:
        await conn.execute("UPDATE users SET password_hash = %s", [weak])
    assert (await log_in(client)).status_code == 200
    async with connection(pool) as conn:
        ((stored,),) = await (await conn.execute("SELECT password_hash FROM users")).fetchall()
    assert "m=65536,t=2,p=1" in stored
    assert (await log_in(client)).status_code == 200


async def test_the_same_characters_are_the_same_password_on_every_keyboard(
    client: httpx.AsyncClient, pool: Pool
) -> None:
    person = await add_person(pool, "minji")
    await set_password(pool, person, "비밀번호비밀번호비밀번호")
    decomposed = unicodedata.normalize("NFD", "비밀번호비밀번호비밀번호")
    assert (await log_in(client, "minji", decomposed)).status_code == 200


async def test_logins_are_in_the_audit_log_without_secrets(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    await log_in(client)
    await log_in(client, password="wrong password")
    await log_in(client, "my-secret-password", "x")
    async with connection(pool) as conn:
        found = await conn.execute(
            "SELECT action, actor_user_id, host(address), details::text FROM audit_log ORDER BY id"
        )
        rows = await found.fetchall()
    assert [(row[0], row[1]) for row in rows] == [
        ("session.login", ada.id),
        ("session.login_failed", None),
        ("session.login_failed", None),  # the same is done for a name that is nobody's: it takes as long
    ]
    assert str(ada.id) in rows[1][3]
    assert rows[0][2] == "192.0.2.7"
    assert "192.0.2.7" in rows[1][3]
    assert "password" not in str([row[3] for row in rows]).replace('"how": "password"', "")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure(LogConfig(level="debug", format="json"), stream)
    yield stream
    logs.configure(LogConfig(level="info", format="auto"))


async def test_nothing_secret_is_logged(
    client: httpx.AsyncClient, pool: Pool, ada: Person, logged: io.StringIO
) -> None:
    answer = await log_in(client)
    session, proof = cookie_of(answer).split(";")[0].partition("=")[2], answer.json()["proof"]
    await log_in(client, password="wrong password")
    await log_in(client, "my-secret-password", "x")
    made = await client.post("/api/v1/tokens", json={"name": "t"}, headers={"Login-Proof": proof})
    token = made.json()["token"]
    await client.get("/api/v1/session", headers={"Authorization": f"Bearer {token}"})
    text = logged.getvalue()
    assert text, "something is logged"
    for secret in (PASSWORD, "wrong password", "my-secret-password", session, proof, token):
        assert secret not in text
