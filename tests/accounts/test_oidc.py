"""Logging in with an OpenID provider: a real one from PyPI, and a strict one of our own that can be told to lie."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from codehub.config import OidcConfig
from codehub.db.pool import Connection, Pool, connection
from codehub.services.actors import UserRole
from codehub.services.oidc import claim_of, role_of, username_of
from codehub.services.provider import Provider
from codehub.signals.connect import Redis
from codehub.web.context import Context
from tests.accounts.people import add_person, set_password, some_password
from tests.accounts.providers import BASE_URL, START, app_of, log_in, provider_process, tell, through
from tests.support import free_port

ADMIN = {"OIDC_ADMIN_CLAIM": "groups", "OIDC_ADMIN_VALUE": "administrators"}


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with provider_process("-m", "oidc_provider_mock", "--port", "{port}", "--require-nonce") as issuer:
        yield issuer


def set_claims(issuer: str, subject: str, claims: dict[str, object]) -> None:
    httpx.put(f"{issuer}/users/{subject}", json=claims).raise_for_status()


async def users(pool: Pool) -> list[tuple[object, ...]]:
    async with connection(pool) as conn:
        found = await conn.execute("SELECT username, role::text, issuer, subject FROM users ORDER BY created_at")
        return await found.fetchall()


async def test_a_login_with_a_real_provider(
    context: Context, real: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: dict[str, object] = {
        "preferred_username": "Grace Hopper",
        "email": "grace@example.com",
        "groups": ["administrators"],
    }
    set_claims(real, "grace", claims)
    transport = app_of(context, monkeypatch, OIDC_ISSUER=real, OIDC_CLIENT_ID="x", OIDC_CLIENT_SECRET="y", **ADMIN)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser, httpx.AsyncClient() as outside:
        there = await browser.get(f"{START}?next=/w/7/")
        page = await outside.get(there.headers["location"])
        assert page.status_code == 200, "the provider accepts what it is asked"
        back = await outside.post(there.headers["location"], data={"sub": "grace"})
        answer = await browser.get(back.headers["location"])
        assert (answer.status_code, answer.headers["location"]) == (303, "/w/7/")
        session = (await browser.get("/api/v1/session")).json()
        assert session["user"] | {"id": ""} == {"id": "", "username": "Grace-Hopper", "role": "admin"}
    assert await users(pool) == [("Grace-Hopper", "admin", real, "grace")]


async def test_a_real_provider_that_refuses(context: Context, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = app_of(context, monkeypatch, OIDC_ISSUER=real, OIDC_CLIENT_ID="x")
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser, httpx.AsyncClient() as outside:
        there = await browser.get(START)
        back = await outside.post(there.headers["location"], data={"action": "deny"})
        answer = await browser.get(back.headers["location"])
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "oidc_failed")


async def test_a_login_with_the_strict_provider(browser: httpx.AsyncClient, pool: Pool, strict: str) -> None:
    """It checks the client's secret, the redirect_uri and the PKCE verifier."""
    answer = await log_in(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (await browser.get("/api/v1/session")).json()["user"]["username"] == "ada"
    assert await users(pool) == [("ada", "user", strict, "subject-1")]


async def test_what_the_provider_is_asked(browser: httpx.AsyncClient) -> None:
    first, second = [parse_qs(urlsplit((await browser.get(START)).headers["location"]).query) for _ in range(2)]
    assert first["response_type"] == ["code"]
    assert first["code_challenge_method"] == ["S256"]
    assert first["scope"] == ["openid profile"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name][0]) >= 43
        assert first[name] != second[name], "never twice"


@pytest.mark.parametrize(
    "lie",
    [
        "issuer", "audience", "two audiences", "authorized party", "expired", "nonce", "subject", "number", "at_hash",
        "no nonce", "no exp", "no aud", "no sub", "no iss", "no signature", "public key as a secret", "client secret",
        "another key", "rubbish", "mix-up", "from the future",
    ],
)  # fmt: skip
async def test_a_lie_logs_nobody_in(browser: httpx.AsyncClient, pool: Pool, strict: str, lie: str) -> None:
    tell(strict, lie=lie)
    answer = await log_in(browser)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "oidc_failed")
    assert (await browser.get("/api/v1/session")).status_code == 401
    assert await users(pool) == []


@pytest.mark.parametrize("environment", [ADMIN])
async def test_userinfo_about_somebody_else(browser: httpx.AsyncClient, pool: Pool, strict: str) -> None:
    tell(strict, lie="userinfo")
    assert (await log_in(browser)).status_code == 401
    assert await users(pool) == []


async def test_an_answer_is_taken_once(browser: httpx.AsyncClient, redis: Redis) -> None:
    back = await through(browser)
    assert len(await redis.keys("codehub:oidc:*")) == 1
    assert (await browser.get(back)).status_code == 303
    assert await redis.keys("codehub:oidc:*") == [], "whatever the provider thinks of a code that comes twice"
    assert (await browser.get(back)).status_code == 401


async def test_an_answer_counts_in_the_browser_that_asked(browser: httpx.AsyncClient) -> None:
    """Else somebody could log a visitor in to an account of theirs."""
    back = await through(browser)
    cookies = httpx.Cookies(browser.cookies)
    browser.cookies.clear()
    assert (await browser.get(back)).status_code == 401
    await browser.get(START)  # a login of this browser's own, with another state
    assert (await browser.get(back)).status_code == 401
    browser.cookies = cookies
    assert (await browser.get(back)).status_code == 303


@pytest.mark.parametrize(("keys_again", "status"), [(0.0, 303), (3600.0, 401)])
async def test_new_keys_of_the_provider_are_looked_up_but_not_for_every_token(
    browser: httpx.AsyncClient, strict: str, keys_again: float, status: int
) -> None:
    app = browser._transport.app  # type: ignore[attr-defined]  # any ASGI application, to httpx
    app.state.provider = Provider(app.state.context.settings.oidc, keys_again=keys_again)
    assert (await log_in(browser)).status_code == 303
    tell(strict, rotated=True)
    assert (await log_in(browser)).status_code == status


async def test_the_cookie_of_the_way_there(browser: httpx.AsyncClient) -> None:
    (cookie,) = (await browser.get(START)).headers.get_list("set-cookie")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly", "samesite=lax", "path=/", "max-age=600",
    }  # fmt: skip


async def test_a_flow_is_forgotten_in_time(browser: httpx.AsyncClient, redis: Redis) -> None:
    await browser.get(START)
    (key,) = await redis.keys("codehub:oidc:*")
    assert 0 < await redis.ttl(key) <= 600
    await redis.delete(key)
    assert (await browser.get(f"{START}/callback?state=x&code=y")).status_code == 401


async def test_the_same_subject_is_the_same_user(browser: httpx.AsyncClient, pool: Pool, strict: str) -> None:
    await log_in(browser)
    tell(strict, claims={"sub": "subject-1", "preferred_username": "married"})
    assert (await log_in(browser)).status_code == 303
    assert [row[0] for row in await users(pool)] == ["ada"]


async def test_a_name_that_is_taken_is_not_taken_over(browser: httpx.AsyncClient, pool: Pool, strict: str) -> None:
    local = await add_person(pool, "ada", UserRole.ADMIN)
    await set_password(pool, local, "correct horse battery")
    await log_in(browser)
    session = (await browser.get("/api/v1/session")).json()
    assert session["user"]["id"] != str(local.id)
    assert (session["user"]["username"], session["user"]["role"]) == ("ada-2", "user")
    tell(strict, claims={"sub": "subject-2", "preferred_username": "ADA"})
    await log_in(browser)
    assert (await browser.get("/api/v1/session")).json()["user"]["username"] == "ADA-3"


async def test_a_disabled_user_stays_out(browser: httpx.AsyncClient, pool: Pool) -> None:
    await log_in(browser)
    async with connection(pool) as conn:
        await conn.execute("UPDATE users SET disabled_at = now()")
    answer = await log_in(browser)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "disabled")


@pytest.mark.parametrize("environment", [ADMIN])
async def test_the_role_follows_the_claim_at_every_login(browser: httpx.AsyncClient, pool: Pool, strict: str) -> None:
    await some_password(pool, await add_person(pool, "root", UserRole.ADMIN))
    for groups, role in ((["administrators"], "admin"), (["staff"], "user"), ("administrators", "admin"), ([], "user")):
        tell(strict, claims={"sub": "subject-1", "preferred_username": "ada", "groups": groups})
        assert (await log_in(browser)).status_code == 303
        assert (await browser.get("/api/v1/session")).json()["user"]["role"] == role


@pytest.mark.parametrize("environment", [ADMIN])
async def test_the_last_administrator_is_not_demoted_by_a_claim(
    browser: httpx.AsyncClient, pool: Pool, strict: str
) -> None:
    for groups in (["administrators"], ["staff"]):
        tell(strict, claims={"sub": "subject-1", "preferred_username": "ada", "groups": groups})
        assert (await log_in(browser)).status_code == 303
    assert [row[1] for row in await users(pool)] == ["admin"]


@pytest.mark.parametrize("environment", [ADMIN])
async def test_what_the_token_leaves_out_is_asked_for(browser: httpx.AsyncClient, pool: Pool) -> None:
    assert (await log_in(browser)).status_code == 303
    assert [row[1] for row in await users(pool)] == ["admin"], "groups are in userinfo only"


async def test_without_a_claim_roles_are_given_here(browser: httpx.AsyncClient, pool: Pool) -> None:
    await log_in(browser)
    async with connection(pool) as conn:
        await conn.execute("UPDATE users SET role = 'admin'")
    await log_in(browser)
    assert [row[1] for row in await users(pool)] == ["admin"]


async def test_a_login_there_ends_the_browsers_last_session(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    before = browser.cookies["codehub_session"]
    await log_in(browser)
    assert browser.cookies["codehub_session"] != before
    browser.cookies.set("codehub_session", before, domain="codehub.test", path="/")
    assert len((await browser.get("/api/v1/sessions", headers={"Cookie": ""})).json()) == 1


@pytest.mark.parametrize("environment", [{"OIDC_SESSION_SECONDS": "600"}])
async def test_a_login_with_the_provider_ends_in_time(browser: httpx.AsyncClient, owner: Connection) -> None:
    assert (await log_in(browser)).status_code == 303
    row = await (
        await owner.execute("SELECT extract(epoch FROM expires_at - created_at)::int FROM sessions")
    ).fetchone()
    assert row == (600,)
    await owner.execute("UPDATE sessions SET expires_at = expires_at - interval '601 s'")
    assert (await browser.get("/api/v1/session")).status_code == 401, "however lately it was used"


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [({}, 43200), ({"OIDC_SESSION_SECONDS": "7200", "SESSION_ABSOLUTE_SECONDS": "3600"}, 3600)],
    ids=["default", "the shorter one counts"],
)
async def test_how_long_one_lasts(browser: httpx.AsyncClient, owner: Connection, seconds: int) -> None:
    assert (await log_in(browser)).status_code == 303
    row = await (
        await owner.execute("SELECT extract(epoch FROM expires_at - created_at)::int FROM sessions")
    ).fetchone()
    assert row == (seconds,)


@pytest.mark.parametrize(
    ("there", "is_ours"),
    [
        ("/account", True),
        ("/admin/users?a=b", True),
        ("/admin/../w/7/", False),
        ("/account/%2e%2E/w/7/", False),
        ("/accounts-of-somebody", False),
        ("/w/7/", False),
    ],
)
async def test_a_proof_is_told_to_the_dashboard_alone(browser: httpx.AsyncClient, there: str, is_ours: bool) -> None:
    """A fragment goes along wherever a browser is led: to a workspace's page, too."""
    answer = await log_in(browser, f"{START}?{urlencode({'fresh': 'true', 'next': there})}")
    assert answer.status_code == 303
    assert ("#proof=" in answer.headers["location"]) == is_ours


async def test_a_fresh_login_that_is_old_gives_no_proof(browser: httpx.AsyncClient, strict: str) -> None:
    """A provider may ignore that it was asked to ask again; it says so in auth_time."""
    tell(strict, lie="old login")
    assert (await log_in(browser)).status_code == 303, "for an ordinary login it is enough"
    assert (await log_in(browser, f"{START}?fresh=true&next=/account")).status_code == 401


@pytest.mark.parametrize("path", ["/login/oidc", "/login/oidc/callback?state=x&code=y"])
async def test_without_a_provider_there_is_no_such_page(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(f"/api/v1{path}")).status_code == 404


async def test_a_provider_that_is_away(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = app_of(context, monkeypatch, OIDC_ISSUER=f"http://127.0.0.1:{free_port()}", OIDC_CLIENT_ID="x")
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        answer = await browser.get(START)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


async def test_a_provider_under_another_name(context: Context, strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = app_of(context, monkeypatch, OIDC_ISSUER=f"{strict}/realm/..", OIDC_CLIENT_ID="x")
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        assert (await browser.get(START)).status_code == 503


def config(**given: str) -> OidcConfig:
    values = {"issuer": "https://login.example.com", "client_id": "x", **given}
    return OidcConfig.model_validate(values)


def test_a_claim_inside_another() -> None:
    claims = {"realm_access": {"roles": ["boss"]}, "a.b": 1}
    assert claim_of(claims, "realm_access.roles") == ["boss"]
    assert claim_of(claims, "a.b") == 1
    assert claim_of(claims, "realm_access.roles.boss") is None
    assert role_of(config(admin_claim="realm_access.roles", admin_value="boss"), claims) is UserRole.ADMIN


def test_a_claim_that_is_no_list_of_words() -> None:
    rules = config(admin_claim="admin", admin_value="true")
    assert role_of(rules, {"admin": True}) is UserRole.ADMIN
    for value in (False, None, {"true": 1}, [["true"]], "truely", ""):
        assert role_of(rules, {"admin": value}) is UserRole.USER


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("Ada Lovelace", "Ada-Lovelace"),
        ("../../etc", "etc"),
        ("x" * 500, "x" * 56),
        ("에이다", None),
        (7, None),
        ("", None),
    ],
)
def test_a_name_that_can_be_had(claim: object, name: str | None) -> None:
    made = username_of(config(), {"sub": "s", "preferred_username": claim})
    assert made == name or (name is None and made.startswith("user-"))
