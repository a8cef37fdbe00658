"""A workspace's own origin: how a browser gets there, what its cookie opens, and what nobody reaches from there."""

from datetime import timedelta
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx
import pytest

from codehub.config import Settings
from codehub.db.doors import Came, Door
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.model.visiting import Destination
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import UserRole
from codehub.services.sessions import hash_of
from codehub.services.visits import Doors
from codehub.signals.connect import Redis
from codehub.web.context import Context
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.api.caller import error
from tests.db.support import change
from tests.visit.conftest import MAIN, Browser, api_over, resting


def host_of(workspace: WorkspaceId, port: int | None = None) -> str:
    return f"{workspace}.{MAIN}" if port is None else f"{port}--{workspace}.{MAIN}"


async def follows(browser: Browser, answer: httpx.Response) -> httpx.Response:
    """To where it was sent."""
    assert answer.status_code == 303, answer.text
    url = urlsplit(answer.headers["location"])
    return await browser.goes_to(f"{url.path}?{url.query}", url.netloc)


async def sent_to_enter(browser: Browser, path: str) -> tuple[Browser, httpx.Response]:
    """The browser as it is at the workspace's own origin, and the answer that sends it there with a code."""
    begun = await follows(Browser(browser.http), await browser.goes_to(path))
    return Browser(browser.http, {"Cookie": cookie_of(begun)}), await follows(browser, begun)


async def handed_over(browser: Browser, path: str) -> httpx.Response:
    """Where the main origin sends the browser, and what it is told there."""
    there, answer = await sent_to_enter(browser, path)
    return await follows(there, answer)


def cookie_of(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


async def opens(database: str, cookie: str, to: Destination) -> bool:
    """Whether the gate would open this door."""
    door = Door(Came.VISIT, hash_of(cookie.partition("=")[2]), to)
    async with open_pool(database, Role.PROXY) as pool:
        return door in await Doors(pool, idle=timedelta(days=7)).opened([door])


async def test_a_browser_is_handed_over(ada: Browser, workspace: WorkspaceId, database: str) -> None:
    answer = await handed_over(ada, f"/w/{workspace}/lab/tree/a%20b?reset&x=1")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"http://{host_of(workspace)}/lab/tree/a%20b?reset&x=1"
    attributes = answer.headers["set-cookie"].lower()
    assert attributes.startswith("codehub_visit=")
    assert "httponly" in attributes
    assert "samesite=lax" in attributes
    assert "domain" not in attributes
    assert "path=/" in attributes
    assert await opens(database, cookie_of(answer), Destination(workspace))
    assert not await opens(database, cookie_of(answer), Destination(WorkspaceId(uuid4())))
    assert not await opens(database, cookie_of(answer), Destination(workspace, 3000))


async def test_its_pages_look_as_was_chosen_in_the_dashboard(ada: Browser, workspace: WorkspaceId) -> None:
    there = Browser(ada.http, {"Cookie": "codehub_look=ko.dark"})
    page = await there.goes_to("/.codehub/enter?code=used", host_of(workspace))
    assert '<html lang="ko" data-theme="dark">' in page.text


async def test_a_port_has_an_origin_and_a_cookie_of_its_own(
    ada: Browser, workspace: WorkspaceId, database: str
) -> None:
    answer = await handed_over(ada, f"/w/{workspace}/.codehub/port/3000/api?x")
    assert answer.headers["location"] == f"http://{host_of(workspace, 3000)}/api?x"
    assert await opens(database, cookie_of(answer), Destination(workspace, 3000))
    assert not await opens(database, cookie_of(answer), Destination(workspace))
    for port in ("80", "1023", "65536", "0", "x"):
        assert (await ada.goes_to(f"/w/{workspace}/.codehub/port/{port}/")).status_code in {404, 422}


async def test_a_code_works_once_for_a_minute_and_only_where_it_was_meant_for(
    ada: Browser, person: Person, workspace: WorkspaceId, redis: Redis, owner: Connection
) -> None:
    there, _ = await sent_to_enter(ada, f"/w/{workspace}/")

    async def code() -> str:
        begun = await there.goes_to("/.codehub/enter?path=/", host_of(workspace))
        return urlsplit((await follows(ada, begun)).headers["location"]).query

    enter, used = "/.codehub/enter?", 400
    once = await code()
    assert (await there.goes_to(enter + once, host_of(workspace))).status_code == 303
    assert (await there.goes_to(enter + once, host_of(workspace))).status_code == used, "replayed"
    other = await resting(owner, person, "RUNNING", endpoint="10.0.0.2:80", op_id=uuid4())
    for host in (host_of(other), host_of(workspace, 3000), f"{workspace}.localhost:9999"):
        assert (await there.goes_to(enter + await code(), host)).status_code == used, host
    await redis.flushdb()
    late = await code()
    (key,) = [each async for each in redis.scan_iter("codehub:enter:*")]
    assert 0 < await redis.ttl(key) <= 60
    await redis.delete(key)
    assert (await there.goes_to(enter + late, host_of(workspace))).status_code == used, "expired"
    for made_up in ("code=", "code=x", f"code={'x' * 500}"):
        assert (await there.goes_to(enter + made_up, host_of(workspace))).status_code == used


async def test_a_code_works_in_the_browser_only_that_it_was_drawn_in(ada: Browser, workspace: WorkspaceId) -> None:
    """Else a link could make somebody work in the workspace of whoever sent it, as them."""
    _, planted = await sent_to_enter(ada, f"/w/{workspace}/")
    victim = Browser(ada.http)
    answer = await follows(victim, planted)
    assert answer.status_code == 400
    assert "set-cookie" not in answer.headers
    _, planted = await sent_to_enter(ada, f"/w/{workspace}/")
    begun = await victim.goes_to("/.codehub/enter?path=/", host_of(workspace))
    answer = await follows(Browser(ada.http, {"Cookie": cookie_of(begun)}), planted)
    assert answer.status_code == 400, "a browser that is about to enter by itself"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("planted", ["x", "short-of-random", "a" * 42, "a" * 44, "a" * 42 + "!"])
async def test_a_secret_that_is_none_of_ours_is_not_adopted(ada: Browser, workspace: WorkspaceId, planted: str) -> None:
    browser = Browser(ada.http, {"Cookie": f"codehub_entering={planted}"})
    begun = await browser.goes_to("/.codehub/enter?path=/", host_of(workspace))
    assert cookie_of(begun) != f"codehub_entering={planted}"
    assert hash_of(planted).hex() not in begun.headers["location"]


async def test_two_tabs_of_a_browser_enter_at_once(ada: Browser, workspace: WorkspaceId) -> None:
    there, first = await sent_to_enter(ada, f"/w/{workspace}/1")
    begun = await follows(there, await ada.goes_to(f"/w/{workspace}/2"))
    second = await follows(ada, begun)
    both = Browser(ada.http, {"Cookie": cookie_of(begun)})
    assert (await follows(both, first)).headers["location"].endswith("/1")
    assert (await follows(both, second)).headers["location"].endswith("/2")


@pytest.mark.parametrize(("main", "back"), [
    (MAIN, MAIN), ("codehub.localhost:8080", "codehub.localhost:8080"), ("evil.test", MAIN), ("", MAIN),
    ("codehub.localhost:9999", MAIN), ("{id}.localhost:8080", MAIN), ("evil.test/.localhost:8080", MAIN),
])  # fmt: skip
async def test_the_way_back_is_to_the_host_that_the_browser_came_from_if_it_is_ours(
    ada: Browser, workspace: WorkspaceId, main: str, back: str
) -> None:
    main = quote(main.replace("{id}", str(workspace)))
    begun = await Browser(ada.http).goes_to(f"/.codehub/enter?path=/&main={main}", host_of(workspace))
    assert urlsplit(begun.headers["location"]).netloc == back


async def test_a_code_is_not_drawn_for_who_may_not_enter(
    ada: Browser, pool: Pool, person: Person, workspace: WorkspaceId, owner: Connection
) -> None:
    bob = await add_person(pool, "bob")
    stranger = Browser(ada.http, {"Cookie": (await session_headers(pool, bob))["Cookie"]})
    begun = await Browser(ada.http).goes_to("/.codehub/enter?path=/x", host_of(workspace))
    assert (await follows(stranger, begun)).status_code == 404
    assert (await follows(Browser(ada.http), begun)).headers["location"].startswith("/login?")
    resting_one = await resting(owner, person, "STANDBY")
    begun = await Browser(ada.http).goes_to("/.codehub/enter?path=/x", host_of(resting_one))
    assert (await follows(ada, begun)).headers["location"] == f"/w/{resting_one}/x", "where it is woken"
    for query in ("", "?for=x&path=/", f"?for={'a' * 64}", f"?for={'a' * 64}&path=//x&port=80"):
        assert (await ada.goes_to(f"/w/{workspace}/.codehub/enter{query}")).status_code in {404, 422}, query


async def test_a_code_of_a_login_that_ended_opens_nothing(
    ada: Browser, workspace: WorkspaceId, owner: Connection
) -> None:
    there, sent = await sent_to_enter(ada, f"/w/{workspace}/")
    await owner.execute("DELETE FROM sessions")
    answer = await follows(there, sent)
    assert (answer.status_code, answer.headers["location"]) == (303, f"http://{MAIN}/w/{workspace}/")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["//evil.test/", "/\\evil.test", "/x//evil.test"])
async def test_the_way_leads_to_no_other_site(ada: Browser, workspace: WorkspaceId, path: str) -> None:
    answer = await handed_over(ada, f"/w/{workspace}{path}")
    assert urlsplit(answer.headers["location"]).netloc == host_of(workspace)


async def test_without_its_cookie_a_browser_goes_back(ada: Browser, workspace: WorkspaceId, owner: Connection) -> None:
    stranger, host = Browser(ada.http), host_of(workspace)
    answer = await stranger.goes_to("/lab?x=1", host)
    assert (answer.status_code, answer.headers["location"]) == (303, f"http://{MAIN}/w/{workspace}/lab?x=1")
    answer = await stranger.goes_to("/api?x", host_of(workspace, 3000))
    assert answer.headers["location"] == f"http://{MAIN}/w/{workspace}/.codehub/port/3000/api?x"
    assert error(await stranger.fetches("/lab", host)) == (401, "not_logged_in")
    entered = Browser(ada.http, {"Cookie": cookie_of(await handed_over(ada, f"/w/{workspace}/"))})
    assert (await entered.goes_to("/", host)).status_code == 503, "in a moment the gate lets it pass"
    assert error(await entered.fetches("/", host)) == (503, "try_again")
    await change(owner, workspace, phase="STANDBY", desired_state="STANDBY", endpoint=None)
    answer = await entered.goes_to("/lab", host)
    assert answer.headers["location"] == f"http://{MAIN}/w/{workspace}/lab", "where it is woken"
    assert error(await entered.fetches("/lab", host)) == (503, "not_running")


@pytest.mark.parametrize("ended", [
    "UPDATE sessions SET last_seen_at = now() - interval '1 year'",
    "UPDATE users SET role = 'user'",
])  # fmt: skip
async def test_who_may_no_longer_enter_goes_back_rather_than_waiting_for_ever(
    http: httpx.AsyncClient, pool: Pool, workspace: WorkspaceId, owner: Connection, ended: str
) -> None:
    root = await add_person(pool, "root", UserRole.ADMIN)
    admin = Browser(http, {"Cookie": (await session_headers(pool, root))["Cookie"]})
    entered = Browser(http, {"Cookie": cookie_of(await handed_over(admin, f"/w/{workspace}/"))})
    assert (await entered.goes_to("/lab", host_of(workspace))).status_code == 503, "in a moment the gate lets it pass"
    await owner.execute(ended)
    answer = await entered.goes_to("/lab", host_of(workspace))
    assert (answer.status_code, answer.headers.get("location")) == (303, f"http://{MAIN}/w/{workspace}/lab")
    assert error(await entered.fetches("/lab", host_of(workspace))) == (401, "not_logged_in")


async def test_a_browser_that_keeps_no_cookies_does_not_go_round_for_ever(ada: Browser, workspace: WorkspaceId) -> None:
    _, sent = await sent_to_enter(ada, f"/w/{workspace}/")
    answer = await follows(Browser(ada.http), sent)
    assert answer.status_code == 400
    assert "cookie" in answer.text
    begun = await follows(Browser(ada.http), await ada.goes_to(f"/w/{workspace}/"))
    answers = [await follows(ada, begun) for _ in range(12)]
    assert answers[-1].status_code == 400, "and one that keeps the first cookie alone"
    assert "cookie" in answers[-1].text


@pytest.mark.parametrize("path", ["/api/v1/session", "/api/v1/workspaces", "/healthz", "/readyz", "/metrics", "/login",
                                  "/w/{id}/", "/api/v1/openapi.json"])  # fmt: skip
async def test_nothing_of_codehub_answers_at_a_workspaces_host(
    ada: Browser, http: httpx.AsyncClient, pool: Pool, person: Person, workspace: WorkspaceId, path: str
) -> None:
    path = path.replace("{id}", str(workspace))
    for credential in (ada.credential, await token_headers(pool, person), {}):
        for host in (host_of(workspace), host_of(workspace, 3000)):
            answer = await Browser(http, credential).fetches(path, host)
            assert answer.status_code in {401, 503}, answer.text
            posted = await Browser(http, credential).fetches("/api/v1/workspaces", host, "POST")
            assert posted.status_code in {401, 503}


async def test_an_administrator_is_recorded_on_entering(
    http: httpx.AsyncClient, pool: Pool, owner: Connection, workspace: WorkspaceId
) -> None:
    root = await add_person(pool, "root", UserRole.ADMIN)
    browser = Browser(http, {"Cookie": (await session_headers(pool, root))["Cookie"]})
    await handed_over(browser, f"/w/{workspace}/")
    rows = await (await owner.execute("SELECT action, workspace_id, actor_user_id FROM audit_log")).fetchall()
    assert rows == [("workspace.visit", workspace, root.id)]


async def test_a_token_is_brought_along(
    http: httpx.AsyncClient, pool: Pool, person: Person, workspace: WorkspaceId
) -> None:
    program = Browser(http, await token_headers(pool, person))
    answer = await program.fetches(f"/w/{workspace}/x?y")
    assert (answer.status_code, answer.headers["location"]) == (307, f"http://{host_of(workspace)}/x?y")


async def test_a_host_of_its_own_under_tls(
    context: Context, person: Person, pool: Pool, workspace: WorkspaceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEHUB_WORKSPACE_HOST", "ws.example.com")
    monkeypatch.setenv("CODEHUB_PUBLIC_URL", "https://codehub.example.com")
    secure = Context(Settings.load(), context.pool, context.redis, context.images, context.default_backend)
    cookie = (await session_headers(pool, person))["Cookie"].replace("codehub_session", "__Host-codehub_session")
    async with api_over(secure) as http:
        browser = Browser(http, {"Cookie": cookie})
        sent = await browser.goes_to(f"/w/{workspace}/x", "codehub.example.com")
        url = urlsplit(sent.headers["location"])
        assert (url.scheme, url.netloc) == ("https", f"{workspace}.ws.example.com")
        begun = await follows(Browser(http), sent)
        assert begun.headers["set-cookie"].startswith("__Host-codehub_entering=")
        assert begun.headers["location"].startswith("https://codehub.example.com/")
        there = Browser(http, {"Cookie": cookie_of(begun)})
        answer = await follows(there, await follows(browser, begun))
        assert answer.headers["location"] == f"https://{workspace}.ws.example.com/x"
        assert answer.headers["set-cookie"].startswith("__Host-codehub_visit=")
        assert "secure" in answer.headers["set-cookie"].lower()
        back = await Browser(http).goes_to("/x", url.netloc)
        assert back.headers["location"] == f"https://codehub.example.com/w/{workspace}/x"
        nobody = await Browser(http, {"Cookie": cookie}).fetches("/api/v1/session", "other.ws.example.com")
        assert error(nobody) == (404, "not_found")
