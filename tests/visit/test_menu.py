"""The menu in an open IDE: who may ask what for which workspace, and what is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from codehub.db.pool import Connection, Pool
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor, ActorKind, Scope, UserRole
from codehub.web.context import Context
from codehub.web.visit.menu import lines
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.api.caller import error
from tests.db.support import change, read
from tests.visit.conftest import MAIN, PLAIN, Browser, running
from tests.visit.test_own_origins import cookie_of, handed_over, host_of

MENU = "/.codehub/menu/"
ASKED = [("GET", "status"), ("POST", "stop"), ("POST", "keep-awake?hours=4")]


@pytest.fixture
async def inside(ada: Browser, workspace: WorkspaceId) -> Browser:
    """The owner's browser, as it is at the workspace's own origin."""
    return Browser(ada.http, {"Cookie": cookie_of(await handed_over(ada, f"/w/{workspace}/"))})


async def desired(owner: Connection, workspace: WorkspaceId) -> str:
    return (await read(owner, workspace)).wish.desired_state.value


async def is_untouched(owner: Connection, workspace: WorkspaceId) -> bool:
    wish = (await read(owner, workspace)).wish
    return (wish.desired_state.value, wish.keep_awake_until) == ("RUNNING", None)


# -- what may be asked for ---------------------------------------------------------------------------------------


async def test_its_owner_keeps_it_awake_and_stops_it(
    inside: Browser, workspace: WorkspaceId, owner: Connection
) -> None:
    host = host_of(workspace)
    for hours in (1, 24):
        answer = await inside.fetches(f"{MENU}keep-awake?hours={hours}", host, "POST")
        assert answer.status_code == 204, answer.text
        until = (await read(owner, workspace)).wish.keep_awake_until
        assert until is not None
        assert abs(until - datetime.now(UTC) - timedelta(hours=hours)) < timedelta(minutes=1)
    assert (await inside.fetches(f"{MENU}keep-awake?hours=0", host, "POST")).status_code == 204
    assert await is_untouched(owner, workspace)
    assert (await inside.fetches(f"{MENU}stop", host, "POST")).status_code == 204
    assert await desired(owner, workspace) == "STANDBY"
    rows = await (await owner.execute("SELECT action FROM audit_log ORDER BY id")).fetchall()
    assert [action for (action,) in rows] == ["workspace.keep_awake"] * 3 + ["workspace.update"]


@pytest.mark.parametrize("hours", ["", "2", "25", "-1", "1e9", "4.0", "١"])
async def test_only_for_as_long_as_the_menu_offers(
    inside: Browser, workspace: WorkspaceId, owner: Connection, hours: str
) -> None:
    answer = await inside.fetches(f"{MENU}keep-awake?hours={hours}", host_of(workspace), "POST")
    assert answer.status_code == 422, answer.text
    assert await is_untouched(owner, workspace)


async def test_a_page_that_asks_all_the_time_is_written_once_a_second(
    inside: Browser, workspace: WorkspaceId, owner: Connection
) -> None:
    asked = [inside.fetches(f"{MENU}keep-awake?hours=24", host_of(workspace), "POST") for _ in range(50)]
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {204}
    (count,) = (await (await owner.execute("SELECT count(*) FROM audit_log")).fetchone()) or (0,)
    assert count <= 10


async def test_it_is_open_in_so_many_tabs_at_most(
    inside: Browser, context: Context, workspace: WorkspaceId, owner: Connection
) -> None:
    row = await (await owner.execute("SELECT id FROM sessions")).fetchone()
    assert row is not None
    with ExitStack() as tabs:
        for _ in range(20):
            tabs.enter_context(context.watch.watching(workspace, row[0]))
        assert error(await inside.fetches(f"{MENU}status", host_of(workspace))) == (429, "too_many_streams")


@pytest.mark.parametrize("path", ["", "start", "delete", "status/x", "../stop", "stop%2f"])
async def test_nothing_else_is_there(inside: Browser, workspace: WorkspaceId, owner: Connection, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = await inside.fetches(MENU + path, host_of(workspace), method)
        assert answer.status_code in {404, 503}, (method, answer.text)
    for method, what in (("GET", "stop"), ("GET", "keep-awake?hours=1"), ("POST", "status"), ("DELETE", "stop")):
        assert (await inside.fetches(MENU + what, host_of(workspace), method)).status_code == 404
    assert await is_untouched(owner, workspace)


# -- who may not -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "what"), ASKED)
async def test_without_a_visit_that_holds_nothing_is_told_or_done(
    ada: Browser, inside: Browser, pool: Pool, person: Person, workspace: WorkspaceId, owner: Connection,
    method: str, what: str,
) -> None:  # fmt: skip
    host = host_of(workspace)
    nobody = Browser(ada.http)
    bob = await add_person(pool, "bob")
    theirs = await running(owner, bob)
    bobs = Browser(ada.http, {"Cookie": (await session_headers(pool, bob))["Cookie"]})
    bob_inside = Browser(ada.http, {"Cookie": cookie_of(await handed_over(bobs, f"/w/{theirs}/"))})
    at_a_port = Browser(ada.http, {"Cookie": cookie_of(await handed_over(ada, f"/w/{workspace}/.codehub/port/3000/"))})
    for browser in (nobody, ada, bobs, bob_inside, at_a_port):
        assert error(await browser.fetches(MENU + what, host, method)) == (401, "not_logged_in")
    assert error(await inside.fetches(MENU + what, host_of(theirs), method)) == (401, "not_logged_in"), "another one"
    for host_of_port in (host_of(workspace, 3000), host_of(workspace, 8888)):
        assert (await at_a_port.fetches(MENU + what, host_of_port, method)).status_code == 404
    for scope in (Scope.READ, Scope.WRITE):
        program = Browser(ada.http, await token_headers(pool, person, scope))
        assert (await program.fetches(MENU + what, host, method)).status_code == 404, "a program has the API"
    await owner.execute("UPDATE visits SET expires_at = now() - interval '1 s'")
    assert error(await inside.fetches(MENU + what, host, method)) == (401, "not_logged_in"), "expired"
    await owner.execute("UPDATE visits SET expires_at = now() + interval '1 day'")
    await owner.execute("UPDATE sessions SET last_seen_at = now() - interval '1 year'")
    assert error(await inside.fetches(MENU + what, host, method)) == (401, "not_logged_in"), "the login has ended"
    assert await is_untouched(owner, workspace)
    assert await is_untouched(owner, theirs)


@pytest.mark.parametrize(("method", "what"), ASKED)
@pytest.mark.parametrize("headers", [
    {"Origin": f"http://{uuid4()}.{MAIN}", "Sec-Fetch-Site": "same-site"},
    {"Origin": f"http://{MAIN}", "Sec-Fetch-Site": "same-site"},
    {"Origin": "http://3000--{id}." + MAIN, "Sec-Fetch-Site": "same-site"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
])  # fmt: skip
async def test_other_origins_pages_press_nothing(
    inside: Browser, workspace: WorkspaceId, owner: Connection, method: str, what: str, headers: dict[str, str]
) -> None:
    given = {name: value.replace("{id}", str(workspace)) for name, value in headers.items()}
    answer = await inside.fetches(MENU + what, host_of(workspace), method, **given)
    assert error(answer) == (403, "cross_site")
    assert await is_untouched(owner, workspace)


async def test_an_administrator_changes_nothing_from_inside_of_somebody_elses(
    http: httpx.AsyncClient, pool: Pool, workspace: WorkspaceId, owner: Connection
) -> None:
    """The page's code is the owner's: what it asked for would be recorded as the administrator's deed."""
    root = await add_person(pool, "root", UserRole.ADMIN)
    admin = Browser(http, {"Cookie": (await session_headers(pool, root))["Cookie"]})
    inside = Browser(http, {"Cookie": cookie_of(await handed_over(admin, f"/w/{workspace}/"))})
    for method, what in ASKED[1:]:
        assert error(await inside.fetches(MENU + what, host_of(workspace), method)) == (403, "owner_only")
    assert await is_untouched(owner, workspace)


# -- path mode ---------------------------------------------------------------------------------------------------


async def test_path_mode_has_it_below_the_workspaces_path(
    ada: Browser, workspace: WorkspaceId, owner: Connection
) -> None:
    at = f"/w/{workspace}{MENU}"
    assert (await ada.fetches(f"{at}keep-awake?hours=1", PLAIN, "POST", Origin=f"http://{PLAIN}")).status_code == 204
    assert (await read(owner, workspace)).wish.keep_awake_until is not None
    assert (await ada.fetches(f"{at}stop", PLAIN, "POST", Origin=f"http://{PLAIN}")).status_code == 204
    assert await desired(owner, workspace) == "STANDBY"


async def test_path_mode_refuses_whom_it_should(
    ada: Browser, pool: Pool, person: Person, workspace: WorkspaceId, owner: Connection
) -> None:
    root, bob = await add_person(pool, "root", UserRole.ADMIN), await add_person(pool, "bob")
    others = [Browser(ada.http, {"Cookie": (await session_headers(pool, each))["Cookie"]}) for each in (root, bob)]
    for method, what in ASKED:
        path = f"/w/{workspace}{MENU}{what}"
        assert error(await Browser(ada.http).fetches(path, PLAIN, method)) == (401, "not_logged_in")
        assert error(await others[0].fetches(path, PLAIN, method)) == (403, "path_mode")
        assert error(await others[1].fetches(path, PLAIN, method)) == (404, "not_found")
        assert error(await ada.fetches(path, MAIN, method)) == (404, "not_found"), "it has an origin of its own there"
        crossing = {"Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site"}
        assert error(await ada.fetches(path, PLAIN, method, **crossing)) == (403, "cross_site")
        for scope in (Scope.READ, Scope.WRITE):
            program = Browser(ada.http, await token_headers(pool, person, scope))
            assert (await program.fetches(path, PLAIN, method)).status_code in {403, 404}
    assert await is_untouched(owner, workspace)


# -- what is told ------------------------------------------------------------------------------------------------


@pytest.fixture
async def actor(ada: Browser, pool: Pool, person: Person, owner: Connection) -> Actor:
    row = await (await owner.execute("SELECT id FROM sessions")).fetchone()
    assert row is not None
    return acting(person, row[0])


def acting(person: Person, session: UUID, role: UserRole = UserRole.USER) -> Actor:
    return Actor(
        user_id=person.id, username=person.username, role=role, kind=ActorKind.USER, credential_id=str(session)
    )


@pytest.fixture
async def watched(context: Context) -> AsyncIterator[Context]:
    task = asyncio.create_task(context.watch.run())
    yield context
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def told(stream: AsyncIterator[bytes]) -> dict[str, Any]:
    """What the next line says."""
    async with asyncio.timeout(10):
        while not (line := (await anext(stream)).strip()):
            pass
    found: dict[str, Any] = json.loads(line)
    return found


async def test_it_says_how_long_it_runs_and_why_it_stopped(
    watched: Context, actor: Actor, workspace: WorkspaceId, owner: Connection
) -> None:
    now = datetime.now(UTC)
    await change(owner, workspace, name="thesis", standby_ttl_seconds=600, last_access_at=now, phase_changed_at=now)
    async with aclosing(lines(watched, actor, workspace, {"lang": "en"})) as stream:
        assert await told(stream) == {"menu": {"lang": "en"}}
        status = (await told(stream))["status"]
        assert (status["name"], status["state"], status["notice_seconds"]) == ("thesis", "running", 300)
        assert status["may_change"] is True
        assert 590 <= status["stops_in"] <= 600
        assert status["awake_for"] is None
        await change(owner, workspace, keep_awake_until=now + timedelta(hours=4))
        status = (await told(stream))["status"]
        assert 4 * 3600 - 10 <= status["awake_for"] <= 4 * 3600
        stopped = {"phase": "STANDBY", "desired_state": "STANDBY", "endpoint": None, "keep_awake_until": None}
        await change(owner, workspace, **stopped, asked_by="ttl: 10 min since it was last used")
        status = (await told(stream))["status"]
        assert (status["state"], status["reason"], status["stops_in"]) == ("stopped", "idle", None)


@pytest.mark.parametrize(("columns", "state", "reason"), [
    ({"asked_by": "user ada"}, "stopped", "you"),
    ({"asked_by": "user root"}, "stopped", "admin"),
    ({"asked_by": "the account is disabled"}, "stopped", ""),
    ({"asked_by": "user ttl: x"}, "stopped", "admin"),
    ({"asked_by": "ttl: 1 h since it was stopped", "phase": "ARCHIVED", "desired_state": "ARCHIVED"},
     "archived", "idle"),
    ({"asked_by": "user ada", "desired_state": "RUNNING"}, "starting", ""),
    ({"asked_by": "user ada", "phase": "ERROR", "error_reason": "ArchiveCorrupted"}, "error", ""),
    ({"asked_by": "user ada", "phase": "RUNNING", "operation": "STOPPING", "op_started_at": datetime.now(UTC)},
     "stopping", "you"),
])  # fmt: skip
async def test_it_says_why(
    watched: Context, actor: Actor, workspace: WorkspaceId, owner: Connection,
    columns: dict[str, Any], state: str, reason: str,
) -> None:  # fmt: skip
    await change(owner, workspace, **{"phase": "STANDBY", "desired_state": "STANDBY", "endpoint": None, **columns})
    async with aclosing(lines(watched, actor, workspace, {})) as stream:
        await told(stream)
        status = (await told(stream))["status"]
    assert (status["state"], status["reason"]) == (state, reason)


async def test_to_an_administrator_the_owner_is_no_administrator(
    watched: Context, pool: Pool, workspace: WorkspaceId, owner: Connection
) -> None:
    root = await add_person(pool, "root", UserRole.ADMIN)
    await session_headers(pool, root)
    row = await (await owner.execute("SELECT id FROM sessions WHERE user_id = %s", [root.id])).fetchone()
    assert row is not None
    await change(owner, workspace, phase="STANDBY", desired_state="STANDBY", endpoint=None, asked_by="user ada")
    async with aclosing(lines(watched, acting(root, row[0], UserRole.ADMIN), workspace, {})) as stream:
        await told(stream)
        status = (await told(stream))["status"]
    assert (status["reason"], status["may_change"]) == ("owner", False)


@pytest.mark.parametrize("ended", [
    "DELETE FROM sessions",
    "UPDATE sessions SET last_seen_at = now() - interval '1 year'",
    "UPDATE users SET disabled_at = now()",
    "UPDATE workspaces SET owner_user_id = (SELECT id FROM users WHERE username = 'bob')",
])  # fmt: skip
async def test_it_ends_with_the_login_and_the_right(
    watched: Context, pool: Pool, actor: Actor, workspace: WorkspaceId, owner: Connection, ended: str
) -> None:
    await add_person(pool, "bob")
    async with aclosing(lines(watched, actor, workspace, {})) as stream:
        await told(stream)
        assert (await told(stream))["status"]["state"] == "running"
        await owner.execute(ended)
        with pytest.raises(StopAsyncIteration):
            await told(stream)


async def test_looking_at_it_is_no_activity(
    watched: Context, actor: Actor, workspace: WorkspaceId, owner: Connection
) -> None:
    before = await read(owner, workspace)
    async with aclosing(lines(watched, actor, workspace, {})) as stream:
        await told(stream)
        await told(stream)
    assert await read(owner, workspace) == before
    assert not [key async for key in watched.redis.scan_iter("*")]


# -- how it looks ------------------------------------------------------------------------------------------------


async def test_the_dashboards_language_and_theme_come_along(ada: Browser, workspace: WorkspaceId) -> None:
    korean = Browser(ada.http, {"Cookie": f"{ada.credential['Cookie']}; codehub_look=ko.dark"})
    cookies = (await handed_over(korean, f"/w/{workspace}/")).headers.get_list("set-cookie")
    assert any(each.startswith("codehub_look=ko.dark;") and "HttpOnly" in each for each in cookies)
    for odd in ("", "; codehub_look=x<y.evil", "; codehub_look=ko", "; codehub_look=xx.dark"):
        plain = Browser(ada.http, {"Cookie": f"{ada.credential['Cookie']}{odd}"})
        cookies = (await handed_over(plain, f"/w/{workspace}/")).headers.get_list("set-cookie")
        assert not any("codehub_look" in each for each in cookies), "then the browser's own counts"


async def test_the_script_is_served_to_anybody_and_holds_no_secret(http: httpx.AsyncClient) -> None:
    for host in (host_of(WorkspaceId(uuid4())), MAIN, PLAIN):
        answer = await Browser(http).fetches("/.codehub/menu.js", host)
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "codehub-menu" in answer.text
