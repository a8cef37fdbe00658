"""Visits on CodeHub's own origin: who sees what, what wakes and what does not."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from string import Formatter
from urllib.parse import quote, urlencode
from uuid import uuid4

import httpx
import pytest

from codehub.db.pool import Connection, Pool
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Scope, UserRole
from codehub.signals.connect import Redis, open_redis
from codehub.web.context import Context
from codehub.web.visit import progress
from codehub.web.visit.pages import Voice
from codehub.web.visit.words import LANGUAGES, language_of
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.api.caller import error
from tests.db.support import add_workspace, change, read
from tests.support import eventually_async
from tests.visit.conftest import LOOPBACK, MAIN, PLAIN, Browser, api_over, moving, resting, running


async def desired(owner: Connection, workspace: WorkspaceId) -> str:
    return (await read(owner, workspace)).wish.desired_state.value


# -- who -----------------------------------------------------------------------------------------------------------


async def test_who_is_not_logged_in_goes_to_the_login_and_comes_back(http: httpx.AsyncClient) -> None:
    path = f"/w/{uuid4()}/lab%20x?reset=1&a=b"
    answer = await Browser(http).goes_to(path)
    assert answer.status_code == HTTPStatus.SEE_OTHER
    assert answer.headers["location"] == f"/login?next={quote(path, safe='')}"
    assert error(await Browser(http).fetches(path)) == (401, "not_logged_in")


@pytest.mark.parametrize("host", [MAIN, PLAIN])
@pytest.mark.parametrize("phase", ["RUNNING", "STANDBY"])
async def test_a_foreign_workspace_is_not_there(
    ada: Browser, pool: Pool, owner: Connection, host: str, phase: str
) -> None:
    bob = await add_person(pool, "bob")
    columns = {"endpoint": "10.0.0.1:80", "op_id": uuid4()} if phase == "RUNNING" else {}
    theirs = await resting(owner, bob, phase, **columns)
    page = await ada.goes_to(f"/w/{theirs}/", host)
    assert page.status_code == 404
    assert "Workspace not found" in page.text
    assert error(await ada.fetches(f"/w/{theirs}/", host)) == (404, "not_found")
    assert await desired(owner, theirs) == phase


@pytest.mark.parametrize("columns", [
    {"phase": "STANDBY", "desired_state": "DELETED"},
    {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC)},
    {"phase": "DELETED", "desired_state": "DELETED", "deleted_at": datetime.now(UTC)},
])  # fmt: skip
async def test_what_is_deleted_is_not_there(
    ada: Browser, person: Person, owner: Connection, columns: dict[str, object]
) -> None:
    gone = await add_workspace(owner, owner_user_id=person.id, **columns)
    assert (await ada.goes_to(f"/w/{gone}/")).status_code == 404
    assert error(await ada.fetches(f"/w/{gone}/")) == (404, "not_found")


@pytest.mark.parametrize("path", ["/w/nonsense/", "/w/nonsense", "/w/123/x"])
async def test_what_is_no_id_is_not_there(ada: Browser, path: str) -> None:
    assert (await ada.goes_to(path)).status_code == 404
    assert error(await ada.fetches(path)) == (404, "not_found")


async def test_a_token_that_may_only_read_does_not_enter(
    http: httpx.AsyncClient, pool: Pool, person: Person, workspace: WorkspaceId
) -> None:
    reader = Browser(http, await token_headers(pool, person, Scope.READ))
    assert error(await reader.fetches(f"/w/{workspace}/", PLAIN)) == (403, "read_only_token")


async def test_an_administrator_enters_others_workspaces_on_origins_of_their_own_only(
    http: httpx.AsyncClient, pool: Pool, owner: Connection, workspace: WorkspaceId
) -> None:
    """One view of a hostile page in path mode made a new administrator."""
    root = await add_person(pool, "root", UserRole.ADMIN)
    browser = Browser(http, {"Cookie": (await session_headers(pool, root))["Cookie"]})
    page = await browser.goes_to(f"/w/{workspace}/x", PLAIN)
    assert page.status_code == 403
    assert "CODEHUB_PATH_MODE" in page.text
    assert error(await browser.fetches(f"/w/{workspace}/x", PLAIN)) == (403, "path_mode")
    assert await (await owner.execute("SELECT FROM visits")).fetchall() == [], "no door was opened"
    token = Browser(http, await token_headers(pool, root))
    assert (await token.fetches(f"/w/{workspace}/x", PLAIN)).status_code == 307, "a program shows no pages"
    assert (await browser.goes_to(f"/w/{workspace}/x", MAIN)).status_code == 303


async def test_an_administrators_visit_is_recorded_first(
    context: Context, pool: Pool, owner: Connection, workspace: WorkspaceId
) -> None:
    accounts = context.settings.accounts.model_copy(update={"path_mode": "trusted"})
    trusted = replace(context, settings=context.settings.model_copy(update={"accounts": accounts}))
    async with api_over(trusted) as http:
        await _visit_of_an_administrator(http, pool, owner, workspace)


async def _visit_of_an_administrator(
    http: httpx.AsyncClient, pool: Pool, owner: Connection, workspace: WorkspaceId
) -> None:
    root = await add_person(pool, "root", UserRole.ADMIN)
    browser = Browser(http, {"Cookie": (await session_headers(pool, root))["Cookie"]})
    answer = await browser.goes_to(f"/w/{workspace}/x", PLAIN)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{workspace}/x")
    assert (await browser.goes_to(f"/w/{workspace}/x", PLAIN)).status_code == 503, "once is enough: it is not a circle"
    rows = await (await owner.execute("SELECT action, workspace_id, actor_user_id FROM audit_log")).fetchall()
    assert rows == [("workspace.visit", workspace, root.id)]
    seen = await browser.fetches(f"/api/v1/workspaces/{workspace}/visits", PLAIN)
    assert [each["by"] for each in seen.json()["items"]] == ["root"]


@pytest.mark.parametrize("path", ["/", "/workspaces/new?a=b", "/admin", "/w/{workspace}/lab?x=1", "/nothing"])
@pytest.mark.parametrize("host", [LOOPBACK, "[::1]:8080", "127.9.9.9"])
async def test_people_at_a_loopback_address_are_sent_to_localhost(
    context: Context, workspace: WorkspaceId, path: str, host: str
) -> None:
    """There every workspace has an origin of its own."""
    there, port = path.format(workspace=workspace), ":8080" if host.endswith(":8080") else ""
    async with api_over(replace(context, to_localhost=True)) as http:
        answer = await Browser(http).goes_to(there, host)
        assert (answer.status_code, answer.headers["location"]) == (307, f"http://localhost{port}{there}")
        assert (await Browser(http).goes_to(there, MAIN)).status_code != 307, "it is not a circle"
        assert (await Browser(http).fetches("/healthz", host)).status_code == 200, "probes are no people"
        assert (await Browser(http).goes_to("/api/v1/login/link?code=x", host)).status_code != 307, "a code stays here"
    async with api_over(context) as http:
        assert (await Browser(http).goes_to(there, host)).status_code != 307, "only where localhost is surely us"


async def test_pages_of_other_origins_get_nowhere(ada: Browser, workspace: WorkspaceId) -> None:
    for headers in ({"Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "http://evil.test"}):
        assert error(await ada.fetches(f"/w/{workspace}/", PLAIN, **headers)) == (403, "cross_site")
    assert error(await ada.presses(f"/w/{workspace}/.codehub/stop", PLAIN, Sec_Fetch_Site="same-site"))[0] == 403


async def test_pages_of_other_origins_wake_nothing_by_watching(ada: Browser, person: Person, owner: Connection) -> None:
    asleep = await resting(owner, person, "STANDBY")
    for headers in ({"Sec_Fetch_Site": "same-site"}, {"Origin": f"http://{uuid4()}.{MAIN}"}):
        async with asyncio.timeout(20):  # what is not refused does not end
            assert error(await ada.fetches(f"/w/{asleep}/.codehub/progress", **headers)) == (403, "cross_site")
    assert await desired(owner, asleep) == "STANDBY"


@pytest.mark.parametrize("headers", [
    {"Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image", "Accept": "image/avif,*/*"},
    {"Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script", "Accept": "text/event-stream"},
    {"Accept": "image/avif,*/*"},
    {"Accept": "*/*"},
])  # fmt: skip
async def test_what_a_page_merely_names_wakes_no_other_workspace(
    ada: Browser, person: Person, owner: Connection, headers: dict[str, str]
) -> None:
    """<img src=/w/{other}/.codehub/progress>: in path mode it is of the same origin, with the user's cookie."""
    asleep = await resting(owner, person, "STANDBY")
    async with asyncio.timeout(20):  # what is not refused does not end
        assert error(await ada.fetches(f"/w/{asleep}/.codehub/progress", PLAIN, **headers)) == (403, "cross_site")
    assert await desired(owner, asleep) == "STANDBY"


@pytest.mark.parametrize("path", ["/../../api/v1/users", "/a/%2e%2E/../../api/v1/users", "/.."])
async def test_a_way_to_a_workspaces_own_origin_leads_nowhere_else(
    ada: Browser, workspace: WorkspaceId, path: str
) -> None:
    """A page's policy does not look at the path where a redirect leads."""
    query = urlencode({"for": "a" * 64, "path": path})
    answer = await ada.fetches(f"/w/{workspace}/.codehub/enter?{query}", PLAIN)
    assert (answer.status_code, "location" in answer.headers) == (404, False)


async def test_a_path_without_its_slash_gets_it(ada: Browser, workspace: WorkspaceId) -> None:
    answer = await ada.goes_to(f"/w/{workspace}?folder=/home")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{workspace}/?folder=/home")
    answer = await ada.goes_to(f"/w/{str(workspace).upper()}/a?b", PLAIN)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{workspace}/a?b")


# -- waking --------------------------------------------------------------------------------------------------------


async def test_going_there_wakes_it(ada: Browser, person: Person, owner: Connection) -> None:
    asleep = await resting(owner, person, "STANDBY")
    page = await ada.goes_to(f"/w/{asleep}/")
    assert page.status_code == 503
    assert "Opening “thesis”" in page.text
    assert '<noscript><meta http-equiv="refresh"' in page.text
    assert f"/w/{asleep}/.codehub/progress" in page.text
    assert "unsafe-inline" not in page.headers["content-security-policy"]
    assert await desired(owner, asleep) == "RUNNING"


@pytest.mark.parametrize("headers", [
    {"Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"},
    {"Sec_Fetch_Mode": "websocket", "Sec_Fetch_Dest": "websocket"},
    {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document", "Sec_Purpose": "prefetch;prerender"},
    {"Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
])  # fmt: skip
async def test_nothing_else_does(ada: Browser, person: Person, owner: Connection, headers: dict[str, str]) -> None:
    asleep = await resting(owner, person, "STANDBY")
    assert error(await ada.fetches(f"/w/{asleep}/socket", PLAIN, **headers)) == (503, "not_running")
    assert error(await ada.fetches(f"/w/{asleep}/", PLAIN, "POST")) == (503, "not_running")
    assert await desired(owner, asleep) == "STANDBY"


async def test_old_browsers_go_there_by_what_they_accept(
    http: httpx.AsyncClient, ada: Browser, person: Person, owner: Connection
) -> None:
    asleep = await resting(owner, person, "STANDBY")
    url, cookie = f"http://{PLAIN}/w/{asleep}/", dict(ada.credential)
    assert (await http.get(url, headers={**cookie, "Accept": "*/*"})).json()["error"]["code"] == "not_running"
    assert (await http.get(url, headers={**cookie, "Accept": "text/html"})).status_code == 503
    assert await desired(owner, asleep) == "RUNNING"


async def test_who_waits_a_moment_sees_no_page(
    ada: Browser, person: Person, owner: Connection, context: Context
) -> None:
    asleep = await resting(owner, person, "STANDBY")

    async def is_asked() -> bool:
        return await desired(owner, asleep) == "RUNNING"

    async with api_over(context, hold_seconds=10) as http:
        going = asyncio.create_task(Browser(http, ada.credential).goes_to(f"/w/{asleep}/x?y", PLAIN))
        await eventually_async(is_asked, "it is woken")
        await change(owner, asleep, phase="RUNNING", endpoint="10.0.0.1:80", op_id=uuid4())
        answer = await going
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{asleep}/x?y")


async def test_an_operation_is_waited_for_and_then_it_is_woken(
    ada: Browser, person: Person, owner: Connection, context: Context
) -> None:
    busy = await moving(owner, person, "RUNNING", "STOPPING", "STANDBY")
    page = await ada.goes_to(f"/w/{busy}/")
    assert "Stopping first" in page.text
    assert await desired(owner, busy) == "STANDBY", "not against an operation"
    told = _events(context, person, busy)
    assert b"Stopping first" in await anext(told)
    await change(owner, busy, phase="STANDBY", operation="NONE", op_started_at=None)

    async def is_asked() -> bool:
        await asyncio.wait_for(anext(told), 5)
        return await desired(owner, busy) == "RUNNING"

    await eventually_async(is_asked, "it is woken")
    await change(owner, busy, phase="RUNNING", endpoint="10.0.0.1:80")
    await _let_go(told)


async def test_many_who_wait_for_one_workspace_share_a_look(
    person: Person, owner: Connection, context: Context, redis: Redis
) -> None:
    awaited = await moving(owner, person, "ARCHIVED", "RESTORING", "RUNNING", archive_key="a/b")
    await redis.config_resetstat()
    waiting = [_events(context, person, awaited) for _ in range(20)]
    for _ in range(3):  # the elapsed seconds change, so each is told again
        told = await asyncio.gather(*(asyncio.wait_for(anext(each), 10) for each in waiting))
        assert all(b"event: progress" in each for each in told)
    stats = await redis.info("commandstats")
    assert 3 <= stats["cmdstat_mget"]["calls"] <= 10, "one question for the progress goes with each look"
    await change(owner, awaited, phase="RUNNING", operation="NONE", op_started_at=None, endpoint="10.0.0.1:80")
    for each in waiting:
        await _let_go(each)


async def test_who_may_not_see_it_is_not_told_what_others_are(
    pool: Pool, person: Person, owner: Connection, context: Context
) -> None:
    busy = await moving(owner, person, "RUNNING", "STOPPING", "STANDBY")
    bob = await add_person(pool, "bob")
    theirs, others = _events(context, person, busy), _events(context, bob, busy)
    assert b"event: progress" in await asyncio.wait_for(anext(theirs), 10)
    assert b"event: go" in await asyncio.wait_for(anext(others), 10)


async def _let_go(told: AsyncIterator[bytes]) -> None:
    while b"event: go" not in await asyncio.wait_for(anext(told), 5):
        pass


async def _events(context: Context, person: Person, workspace: WorkspaceId) -> AsyncIterator[bytes]:
    await session_headers(context.pool, person)
    async with context.pool.connection() as conn:
        row = await (await conn.execute("SELECT id FROM sessions WHERE user_id = %s", [person.id])).fetchone()
    assert row is not None
    actor = type(person.actor)(
        user_id=person.id, username=person.username, role=person.role, kind=person.actor.kind, credential_id=str(row[0])
    )
    async for each in progress.events(context, actor, workspace, Voice("en", "thesis")):
        if not each.startswith(b"retry"):
            yield each


async def test_the_page_knows_how_long_it_usually_takes(ada: Browser, person: Person, owner: Connection) -> None:
    starting = await moving(owner, person, "STANDBY", "STARTING", "RUNNING")
    for seconds in (5, 7, 9):
        before = uuid4()
        for operation, duration in (("STARTING", None), ("NONE", seconds * 1000)):
            await owner.execute(
                "INSERT INTO workspace_history (workspace_id, at, phase, operation, op_id, duration_ms) "
                "VALUES (%s, now(), 'STANDBY', %s, %s, %s)",
                [starting, operation, before, duration],
            )
    assert "usually about 7 s" in (await ada.goes_to(f"/w/{starting}/")).text


# -- pages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("phase", "text"), [("ARCHIVED", "“thesis” is archived"), ("PENDING", "has not been started")])
async def test_what_needs_a_person_has_a_button(
    ada: Browser, person: Person, owner: Connection, phase: str, text: str
) -> None:
    wish = "ARCHIVED"
    asleep = await resting(owner, person, phase, desired_state=wish)
    page = await ada.goes_to(f"/w/{asleep}/lab")
    assert page.status_code == 502
    assert text in page.text
    assert "idle" not in page.text, "somebody may have asked for it"
    assert await desired(owner, asleep) == wish
    action = f"/w/{asleep}/.codehub/start?next={quote(f'/w/{asleep}/lab', safe='')}"
    assert f'action="{action}"' in page.text
    assert f"form-action 'self' http://{asleep}.{MAIN}" in page.headers["content-security-policy"]
    answer = await ada.presses(action)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{asleep}/lab")
    assert await desired(owner, asleep) == "RUNNING"
    assert (await ada.goes_to(f"/w/{asleep}/lab")).status_code == 503, "now it is waited for"


async def test_an_error_says_what_happened(ada: Browser, person: Person, owner: Connection) -> None:
    broken = await resting(
        owner, person, "ERROR", desired_state="RUNNING", error_reason="DataLost",
        conditions={"policy.healthy": {"status": False, "reason": "DataLost", "message": "The <b>home</b> is gone."}},
    )  # fmt: skip
    page = await ada.goes_to(f"/w/{broken}/")
    assert page.status_code == 502
    assert "The &lt;b&gt;home&lt;/b&gt; is gone." in page.text
    assert f'href="/workspaces/{broken}"' in page.text
    page = await ada.goes_to(f"/w/{broken}/", Accept_Language="ko")
    assert "디스크에서 홈 디렉터리가 사라졌습니다." in page.text
    assert "is gone" not in page.text


async def test_what_does_not_start_can_be_started_in_safe_mode(ada: Browser, person: Person, owner: Connection) -> None:
    seen = {"policy.healthy": {"status": False, "reason": "RetryExceeded", "message": "It did not start."}}
    lost = await resting(owner, person, "ERROR", desired_state="STANDBY", error_reason="DataLost", conditions=seen)
    assert "Start in safe mode" not in (await ada.goes_to(f"/w/{lost}/")).text, "there is no home to start it with"
    seen["storage.volume_ready"] = {"status": True, "reason": "VolumeProvisioned", "message": ""}
    broken = await resting(
        owner, person, "ERROR", desired_state="STANDBY", error_reason="RetryExceeded", conditions=seen
    )
    page = await ada.goes_to(f"/w/{broken}/lab")
    action = f"/w/{broken}/.codehub/start-safely?next={quote(f'/w/{broken}/lab', safe='')}"
    assert f'action="{action}"' in page.text
    answer = await ada.presses(action)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{broken}/lab")
    row = await read(owner, broken)
    assert (row.wish.desired_state, row.wish.safe_mode, row.wish.recover_request is None) == ("RUNNING", True, False)
    assert (await ada.goes_to(f"/w/{broken}/lab")).status_code == 503, "now it is waited for"


async def test_over_the_limit_one_can_be_stopped(ada: Browser, person: Person, owner: Connection) -> None:
    one, two = [await running(owner, person, name=f"<{n}>", endpoint=f"10.0.0.{n}:80") for n in (1, 2)]
    asleep = await resting(owner, person, "STANDBY")
    page = await ada.goes_to(f"/w/{asleep}/")
    assert page.status_code == 502
    assert "Stop “&lt;1&gt;” and open “thesis”" in page.text
    assert f"/w/{one}/.codehub/stop" in page.text
    assert f"/w/{two}/.codehub/stop" in page.text
    assert await desired(owner, asleep) == "STANDBY"
    assert page.text.count(f"&amp;open={asleep}") == 2
    pressed = asyncio.create_task(
        ada.presses(f"/w/{one}/.codehub/stop?next={quote(f'/w/{asleep}/', safe='')}&open={asleep}")
    )

    async def is_asked() -> bool:
        return await desired(owner, one) == "STANDBY"

    await eventually_async(is_asked, "the first is asked to stop")
    assert await desired(owner, asleep) == "STANDBY", "the first still counts"
    await change(owner, one, phase="STANDBY", endpoint=None)
    answer = await pressed
    assert await desired(owner, asleep) == "RUNNING"
    assert (answer.status_code, answer.headers["location"]) == (303, f"/w/{asleep}/")
    assert await desired(owner, one) == "STANDBY"


async def test_stopping_opens_no_workspace_of_somebody_else(
    http: httpx.AsyncClient, pool: Pool, person: Person, owner: Connection
) -> None:
    """A page in path mode may press the button, with any id."""
    root = await add_person(pool, "root", UserRole.ADMIN)
    browser = Browser(http, {"Cookie": (await session_headers(pool, root))["Cookie"]})
    ours = await running(owner, root)
    own, theirs = [await resting(owner, each, "STANDBY") for each in (root, person)]
    assert (await browser.presses(f"/w/{ours}/.codehub/stop?open={theirs}")).status_code == 303
    assert (await desired(owner, ours), await desired(owner, theirs)) == ("STANDBY", "STANDBY")
    assert (await browser.presses(f"/w/{ours}/.codehub/stop?open={own}")).status_code == 303
    assert await desired(owner, own) == "RUNNING"


async def test_a_session_waits_for_room_once_at_a_time(ada: Browser, person: Person, owner: Connection) -> None:
    one, _ = [await running(owner, person, endpoint=f"10.0.0.{n}:80") for n in (1, 2)]
    first, second = [await resting(owner, person, "STANDBY", name=name) for name in ("first", "second")]
    waiting = asyncio.create_task(ada.presses(f"/w/{one}/.codehub/stop?open={first}"))

    async def is_asked() -> bool:
        return await desired(owner, one) == "STANDBY"

    await eventually_async(is_asked, "the first is asked to stop")
    async with asyncio.timeout(10):
        assert (await ada.presses(f"/w/{one}/.codehub/stop?open={second}")).status_code == 303
    assert not waiting.done()
    await change(owner, one, phase="STANDBY", endpoint=None)
    await waiting
    assert (await desired(owner, first), await desired(owner, second)) == ("RUNNING", "STANDBY")


@pytest.mark.parametrize("path", ["/", "/../../api/v1/session", "/%2e%2e/x"])
async def test_in_path_mode_nobody_is_handed_over(ada: Browser, workspace: WorkspaceId, path: str) -> None:
    """A page there could read whatever a redirect led to."""
    enter = f"/w/{workspace}/.codehub/enter?{urlencode({'for': 'a' * 64, 'path': path})}"
    for answer in (await ada.goes_to(enter, PLAIN), await ada.fetches(enter, PLAIN)):
        assert (answer.status_code, "location" in answer.headers) == (404, False)


@pytest.mark.parametrize("place", ["//evil.test", "https://evil.test/", "/\\evil.test", "/%2f/evil.test"])
async def test_buttons_lead_to_no_other_site(ada: Browser, workspace: WorkspaceId, place: str) -> None:
    answer = await ada.presses(f"/w/{workspace}/.codehub/stop?next={quote(place, safe='')}")
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    "place",
    ["/api/v1/users", "/w/{other}/secret", "/w/{workspace}/../{other}/", "/w/{workspace}/%2e%2e/%2E./api/v1/users"],
)
@pytest.mark.parametrize("button", ["start", "stop"])
async def test_buttons_are_no_way_out_of_a_confined_page(
    ada: Browser, workspace: WorkspaceId, place: str, button: str
) -> None:
    """In path mode a workspace's page may press them, and could read whatever a redirect led to."""
    there = place.format(workspace=workspace, other=uuid4())
    answer = await ada.presses(f"/w/{workspace}/.codehub/{button}?next={quote(there, safe='')}", PLAIN)
    if button == "start":
        assert answer.headers["location"] == f"/w/{workspace}/"
    else:
        assert (answer.status_code, "location" in answer.headers) == (200, False)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert f'content="0; url={there}"' in answer.text


async def test_what_runs_and_does_not_answer_has_a_page(ada: Browser, workspace: WorkspaceId) -> None:
    page = await ada.goes_to(f"/w/{workspace}/", PLAIN, X_CodeHub_Unreachable="1")
    assert page.status_code == 502
    assert "This page retries automatically" in page.text
    assert 'http-equiv="refresh"' in page.text
    assert error(await ada.fetches(f"/w/{workspace}/", PLAIN, X_CodeHub_Unreachable="1")) == (502, "unreachable")


async def test_pages_have_the_language_and_the_theme_of_the_dashboard(
    ada: Browser, person: Person, owner: Connection
) -> None:
    archived = await resting(owner, person, "ARCHIVED")
    for kept, lang, theme in (("ko.dark", "ko", "dark"), ("en.light", "en", "light"), ("xx.<b>", "en", "auto")):
        cookie = f"{ada.credential['Cookie']}; codehub_look={kept}"
        page = await ada.goes_to(f"/w/{archived}/", Cookie=cookie, Accept_Language="en")
        assert f'<html lang="{lang}" data-theme="{theme}">' in page.text


async def test_a_port_that_is_none_has_a_page(ada: Browser, workspace: WorkspaceId) -> None:
    page = await ada.goes_to(f"/w/{workspace}/.codehub/port/22/")
    assert page.status_code == 404
    assert "Ports from 1024 to 65535 can be opened." in page.text
    assert error(await ada.fetches(f"/w/{workspace}/.codehub/port/22/")) == (404, "not_found")


async def test_pages_speak_korean(ada: Browser, person: Person, owner: Connection) -> None:
    archived = await resting(owner, person, "ARCHIVED")
    page = await ada.goes_to(f"/w/{archived}/", Accept_Language="ko-KR,ko;q=0.9,en-US;q=0.8")
    assert "보관되어 있습니다" in page.text
    assert 'lang="ko"' in page.text
    assert page.headers["content-language"] == "ko"


def test_every_language_has_every_word() -> None:
    english = LANGUAGES["en"]
    for name, words in LANGUAGES.items():
        assert words.keys() == english.keys(), name
        for key, text in words.items():
            assert set(_places(text)) == set(_places(english[key])), (name, key)


def _places(text: str) -> list[str]:
    return [field for _, field, _, _ in Formatter().parse(text) if field]


@pytest.mark.parametrize(("accept", "language"), [
    (None, "en"), ("", "en"), ("fr", "en"), ("ko", "ko"), ("en;q=0.5, ko;q=0.9", "ko"), ("ko;q=x, en", "en"),
    ("KO-kr", "ko"), ("ko;q=0", "en"),
])  # fmt: skip
def test_the_browser_says_which_language(accept: str | None, language: str) -> None:
    assert language_of(accept) == language


async def test_the_files_of_the_pages_are_served(http: httpx.AsyncClient) -> None:
    for name, kind in (("visit.css", "text/css"), ("visit.js", "text/javascript")):
        for host in (MAIN, PLAIN, f"{uuid4()}.localhost:8080"):
            answer = await http.get(f"http://{host}/.codehub/{name}")
            assert answer.headers["content-type"].startswith(kind)
    assert (await http.get(f"http://{MAIN}/.codehub/other")).status_code == 404


async def test_without_redis_there_is_a_page(
    ada: Browser, workspace: WorkspaceId, context: Context, pool: Pool
) -> None:
    async with open_redis("redis://127.0.0.1:1") as away, api_over(replace(context, redis=away)) as http:
        page = await Browser(http, ada.credential).goes_to(f"/w/{workspace}/.codehub/enter?path=/&for={'a' * 64}")
    assert page.status_code == 503
    assert "retries automatically" in page.text
