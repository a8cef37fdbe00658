"""The one-time link: it logs the administrator in once, on this machine, and nobody else anywhere."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
import structlog

from codehub import logs
from codehub.config import LogConfig, Settings
from codehub.db import accounts as account_rows
from codehub.db.pool import Pool, connection
from codehub.metrics import Metrics
from codehub.services import login_links
from codehub.services.actors import UserRole
from codehub.services.login_links import SECONDS, LoginLink
from codehub.services.sessions import hash_of
from codehub.signals.connect import Redis
from codehub.signals.login_links import RedisLoginLinks
from codehub.web import hosts
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.cookies import PLAIN, SECURE
from tests.accounts.people import Person, add_person, session_headers, some_password

HERE = "http://localhost:8080"


@pytest.fixture
async def admin(pool: Pool) -> Person:
    person = await add_person(pool, "admin", UserRole.ADMIN)
    await some_password(pool, person)
    return person


@asynccontextmanager
async def browser(
    context: Context, address: str = "127.0.0.1", base_url: str = HERE
) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app({}, Metrics(), context=context), client=(address, 1234))
    async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        yield client


@pytest.fixture
async def here(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(context) as client:
        yield client


async def issued(context: Context) -> LoginLink:
    link = await login_links.issue(context.pool, RedisLoginLinks(context.redis))
    assert link is not None
    return link


async def follow(client: httpx.AsyncClient, link: LoginLink, **headers: str) -> httpx.Response:
    return await client.get(f"/{login_links.PATH}", params={"code": link.code}, headers=headers)


def is_dead(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.headers["location"]) == (303, "/login?error=link_used") and not answer.cookies


def is_not_local(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json()["error"]["code"]) == (403, "not_local") and not answer.cookies


@pytest.mark.usefixtures("admin")
async def test_it_logs_the_administrator_in(here: httpx.AsyncClient, context: Context) -> None:
    link = await issued(context)
    assert link.url(f"{HERE}/") == f"{HERE}/api/v1/login/link?code={link.code}"
    answer = await follow(here, link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/"), "the code is not in the next address"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    (cookie,) = answer.headers.get_list("set-cookie")
    assert cookie.startswith(f"{PLAIN}=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert (await here.get("/api/v1/session")).json()["user"]["username"] == "admin"


async def test_it_is_recorded(here: httpx.AsyncClient, context: Context, admin: Person) -> None:
    await follow(here, await issued(context))
    async with connection(context.pool) as conn:
        found = await conn.execute("SELECT actor_user_id, action, details->>'how', host(address) FROM audit_log")
        assert await found.fetchall() == [(admin.id, "session.login", "one-time link", "127.0.0.1")]


@pytest.mark.usefixtures("admin")
async def test_it_works_once(here: httpx.AsyncClient, context: Context) -> None:
    link = await issued(context)
    answers = await asyncio.gather(*(follow(here, link) for _ in range(8)))
    assert sorted(answer.headers["location"] for answer in answers) == ["/", *["/login?error=link_used"] * 7]
    assert is_dead(await follow(here, link))


@pytest.mark.usefixtures("admin")
async def test_a_look_at_its_head_does_not_use_it_up(here: httpx.AsyncClient, context: Context) -> None:
    link = await issued(context)
    assert (await here.head(f"/{login_links.PATH}", params={"code": link.code})).status_code == 405
    assert (await follow(here, link)).headers["location"] == "/"


@pytest.mark.usefixtures("admin")
async def test_it_ends_after_ten_minutes(here: httpx.AsyncClient, context: Context, redis: Redis) -> None:
    link = await issued(context)
    (key,) = await redis.keys("*")
    assert SECONDS - 5 < await redis.ttl(key) <= SECONDS == 600
    await redis.pexpire(key, 1)
    await asyncio.sleep(0.01)
    assert is_dead(await follow(here, link))


@pytest.mark.usefixtures("admin")
async def test_only_its_hash_is_kept(context: Context, redis: Redis) -> None:
    link = await issued(context)
    (key,) = await redis.keys("*")
    kept = str(key) + str(await redis.get(key))
    assert hash_of(link.code).hex() in kept
    assert link.code not in kept
    assert link.code not in repr(link)
    assert len(link.code) >= 22, "128 bits"


@pytest.mark.parametrize("code", ["", "x", "x" * 150, "\N{SNOWMAN}"])
async def test_a_code_that_is_none(here: httpx.AsyncClient, code: str) -> None:
    assert is_dead(await follow(here, LoginLink("admin", code)))


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("address", ["192.0.2.7", "10.0.0.1", "2001:db8::1", "0.0.0.0", "::ffff:192.0.2.7"])
async def test_somebody_on_another_machine(here: httpx.AsyncClient, context: Context, address: str) -> None:
    link = await issued(context)
    async with browser(context, address) as elsewhere:
        assert is_not_local(await follow(elsewhere, link))
    assert (await follow(here, link)).headers["location"] == "/", "it was not used up"


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("host", ["codehub.test", "192.0.2.1"])
async def test_another_host_of_ours(here: httpx.AsyncClient, context: Context, host: str) -> None:
    link = await issued(context)
    assert is_not_local(await follow(here, link, Host=host))
    assert (await follow(here, link)).headers["location"] == "/"


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("host", ["codehub.example.com", "localhost.example.com", "127.0.0.1.example.com"])
async def test_a_host_of_somebody_else_s(here: httpx.AsyncClient, context: Context, host: str) -> None:
    """A name that leads to this machine (DNS rebinding)."""
    link = await issued(context)
    answer = await follow(here, link, Host=host)
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "unknown_host")
    assert not answer.cookies
    assert (await follow(here, link)).headers["location"] == "/"


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("trusted", ["", "127.0.0.0/8"])
@pytest.mark.parametrize(
    "claim",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-For": "192.0.2.7, 127.0.0.1"},
        {"X-Forwarded-For": "192.0.2.7"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Forwarded-Proto": "https"},
        {"X-Real-IP": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
    ids=str,
)
async def test_a_proxy_on_this_machine(
    context: Context, claim: dict[str, str], trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trusted or not: whom it speaks for is not this machine, whatever it says."""
    monkeypatch.setenv("CODEHUB_TRUSTED_PROXIES", trusted)
    behind = Context(Settings.load(), context.pool, context.redis, context.images, context.default_backend)
    link = await issued(context)
    async with browser(behind) as proxy:
        assert is_not_local(await follow(proxy, link, **claim))


@pytest.mark.usefixtures("admin")
async def test_someone_elsewhere_cannot_claim_to_be_here(context: Context) -> None:
    link = await issued(context)
    async with browser(context, "192.0.2.7") as elsewhere:
        assert is_not_local(await follow(elsewhere, link, **{"X-Forwarded-For": "127.0.0.1"}))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE users SET disabled_at = now()",
        "UPDATE users SET role = 'user'",
        "UPDATE users SET password_hash = 'another'",
        "DELETE FROM users",
    ],
)
async def test_an_account_that_changed(here: httpx.AsyncClient, context: Context, admin: Person, change: str) -> None:
    link = await issued(context)
    async with connection(context.pool) as conn:
        await conn.execute("RESET ROLE")
        await conn.execute(f"{change} WHERE id = %s".encode(), [admin.id])
    assert is_dead(await follow(here, link))


async def test_it_is_for_the_administrator_who_was_made_first(context: Context, pool: Pool) -> None:
    people = [await add_person(pool, name, UserRole.ADMIN) for name in ("zoe", "ada", "bob", "oidc")]
    await some_password(pool, *people[:3])  # the last has none
    async with connection(pool) as conn:
        for days, person in enumerate((people[3], people[0], people[1], people[2])):
            await conn.execute(
                "UPDATE users SET created_at = '2026-01-01'::timestamptz + %s * interval '1 day' WHERE id = %s",
                [days, person.id],
            )
        await account_rows.set_disabled(conn, people[0].id, disabled=True)
    assert (await issued(context)).username == "ada"


async def test_there_is_none_where_nobody_has_a_password(context: Context, pool: Pool) -> None:
    await add_person(pool, "admin", UserRole.ADMIN)
    assert await login_links.issue(pool, RedisLoginLinks(context.redis)) is None


async def test_it_ends_the_browser_s_earlier_session(here: httpx.AsyncClient, context: Context, admin: Person) -> None:
    earlier = await session_headers(context.pool, admin)
    assert (await follow(here, await issued(context), **earlier)).headers["location"] == "/"
    here.cookies.clear()
    assert (await here.get("/api/v1/session", headers=earlier)).status_code == 401


@pytest.mark.usefixtures("admin")
async def test_under_tls_its_cookie_is_secure(context: Context) -> None:
    async with browser(context, base_url="https://localhost:8443") as client:
        (cookie,) = (await follow(client, await issued(context))).headers.get_list("set-cookie")
    assert cookie.startswith(f"{SECURE}=")
    assert "Secure" in cookie


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    written = io.StringIO()
    logs.configure(LogConfig(level="debug", format="json"), written)
    yield written
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.mark.usefixtures("admin")
async def test_its_code_is_in_no_log(here: httpx.AsyncClient, context: Context, log: io.StringIO) -> None:
    link = await issued(context)
    await follow(here, link)
    await follow(here, link)
    async with browser(context, "192.0.2.7") as elsewhere:
        await follow(elsewhere, link)
    assert link.code not in log.getvalue()


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.8.8.8", "[::1]:8080", "localhost."]
)
def test_hosts_that_are_this_machine(host: str) -> None:
    assert hosts.is_loopback(host)


@pytest.mark.parametrize("host", ["", "example.com", "10.0.0.1", "[::2]", "localhost.evil", "evil.localhost@x", "::1"])
def test_hosts_that_are_not(host: str) -> None:
    assert not hosts.is_loopback(host)
