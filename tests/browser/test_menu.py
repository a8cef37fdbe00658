"""The menu in an open IDE, as a person sees it: how long the workspace runs, what it can be told, why it stopped."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

from tests.browser.dashboard import AXE
from tests.browser.ides import JupyterLab
from tests.browser.site import OWN_ORIGINS, PATH_MODE, Site
from tests.lab.ides import installed
from tests.support import eventually_async

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300)]
SHORTEST_SECONDS = 60


@dataclass
class Tab:
    """One that has the tiny workspace open."""

    site: Site
    host: str
    workspace: UUID
    page: Page

    @property
    def address(self) -> str:
        return f"{self.site.url(self.host)}/w/{self.workspace}/"

    @property
    def pill(self) -> Locator:
        return self.page.locator("codehub-menu .pill")

    @property
    def panel(self) -> Locator:
        return self.page.locator("codehub-menu .panel")

    @property
    def notice(self) -> Locator:
        return self.page.locator("codehub-menu .notice")

    async def opens(self) -> None:
        await self.page.goto(self.address)
        await expect(self.page.locator("h1")).to_contain_text(str(self.workspace))
        await expect(self.pill).to_be_visible()

    async def presses(self, name: str | re.Pattern[str]) -> None:
        """In the panel, which is opened for that."""
        if not await self.panel.is_visible():
            await self.pill.click()
        await self.panel.get_by_role("button", name=name).click()

    async def has_no_barriers(self) -> None:
        await self.page.evaluate(AXE.read_text() + "; undefined")
        found: dict[str, Any] = await self.page.evaluate("axe.run({include: ['codehub-menu']})")
        assert found["passes"], "it looked at nothing"
        assert not [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]


@pytest.fixture(params=[OWN_ORIGINS, PATH_MODE])
async def tab(request: pytest.FixtureRequest, browser_context: BrowserContext, page: Page) -> AsyncIterator[Tab]:
    host = str(request.param)
    site: Site = request.getfixturevalue("path_site" if host == PATH_MODE else "site")
    await site.log_in(browser_context, host)
    tab = Tab(site, host, await site.workspace("test"), page)
    yield tab
    site.admin.delete_workspace(tab.workspace, purge=True, confirm=True)


own_origins_only = pytest.mark.parametrize("tab", [OWN_ORIGINS], indirect=True)


async def test_a_day_with_it(tab: Tab) -> None:
    await tab.opens()
    await expect(tab.pill).to_contain_text("test")
    await expect(tab.pill).to_contain_text("10 min")
    await tab.pill.click()
    await expect(tab.panel).to_contain_text("Stops in 10 min if idle")
    await tab.has_no_barriers()
    await tab.presses("Keep awake: 4 h")
    await expect(tab.panel).to_be_hidden()
    await expect(tab.pill.get_by_text("10 min")).to_be_hidden()
    await tab.pill.click()
    await expect(tab.panel).to_contain_text("Kept awake: 4 h left")
    await tab.presses("Turn off")
    await expect(tab.pill).to_contain_text("10 min")
    await tab.presses("Stop")
    await expect(tab.panel.get_by_role("button", name="Stop now? Programs end")).to_be_visible()
    await tab.presses("Stop now?")
    await expect(tab.notice).to_contain_text("“test” has stopped")
    await expect(tab.notice).to_contain_text("You asked for it.")
    await tab.has_no_barriers()
    assert tab.site.admin.workspace(tab.workspace).phase == "STANDBY", "a tab that is told of it wakes nothing"
    await tab.notice.get_by_role("button", name="Start again").click()
    await tab.site.becomes(tab.workspace, "RUNNING")
    await expect(tab.page.locator("h1")).to_contain_text(str(tab.workspace))
    await expect(tab.notice).to_be_hidden()
    await tab.pill.click()
    await tab.panel.get_by_role("link", name="Back to dashboard").click()
    await expect(tab.page.get_by_role("heading", name="Workspaces")).to_be_visible()
    assert tab.page.url.rstrip("/") == tab.site.url(tab.host)


@own_origins_only
async def test_an_open_tab_keeps_nothing_awake_and_says_before_and_after_what_happens(tab: Tab) -> None:
    tab.site.admin.update_workspace(tab.workspace, standby_ttl_seconds=SHORTEST_SECONDS)
    await tab.opens()
    await expect(tab.notice).to_contain_text("“test” is idle and stops in", timeout=SHORTEST_SECONDS * 1000)
    await tab.has_no_barriers()
    assert tab.site.admin.workspace(tab.workspace).phase == "RUNNING"
    await tab.notice.get_by_role("button", name="Keep awake for 1 h").click()
    await expect(tab.notice).to_be_hidden()
    await tab.presses("Turn off")
    await expect(tab.notice).to_be_visible(timeout=2 * SHORTEST_SECONDS * 1000)
    await tab.notice.get_by_role("button", name="Dismiss").click()
    await expect(tab.notice).to_be_hidden()
    await expect(tab.notice).to_contain_text("has stopped", timeout=2 * SHORTEST_SECONDS * 1000)
    await expect(tab.notice).to_contain_text("It was idle.")


@own_origins_only
async def test_it_tells_of_other_ends(tab: Tab) -> None:
    await tab.opens()
    tab.site.admin.set_state(tab.workspace, "ARCHIVED")
    await expect(tab.notice).to_contain_text("“test” is archived", timeout=60_000)
    tab.site.admin.set_state(tab.workspace, "RUNNING")
    await expect(tab.notice).to_contain_text("is running again", timeout=60_000)
    await tab.notice.get_by_role("button", name="Reload").click()
    await expect(tab.notice).to_be_hidden()
    await tab.page.context.request.post(f"{tab.site.url(tab.host)}/api/v1/logout")
    await expect(tab.notice).to_contain_text("Your session has ended")
    await tab.has_no_barriers()
    await tab.notice.get_by_role("button", name="Log in").click()
    await expect(tab.page).to_have_url(re.compile("/login"))


@own_origins_only
async def test_in_korean_and_dark_as_the_dashboard(tab: Tab) -> None:
    look = {"name": "codehub_look", "value": "ko.dark", "url": tab.site.url(tab.host)}
    await tab.page.context.add_cookies([look])  # type: ignore[list-item]
    await tab.opens()
    await tab.pill.click()
    await expect(tab.panel).to_contain_text("사용하지 않으면 10분 후 정지합니다")
    assert await tab.panel.evaluate("each => getComputedStyle(each).backgroundColor") == "rgb(27, 34, 32)"
    await tab.has_no_barriers()
    tab.site.admin.set_state(tab.workspace, "STANDBY")
    await expect(tab.notice).to_contain_text("직접 요청하셨습니다", timeout=60_000)


@own_origins_only
async def test_it_stays_small_and_gives_the_keyboard_back(tab: Tab) -> None:
    await tab.opens()
    await tab.page.evaluate("document.body.append(document.createElement('textarea'))")
    await tab.page.locator("textarea").focus()
    await tab.pill.click()
    await tab.page.keyboard.type("typed on")
    await expect(tab.page.locator("textarea")).to_have_value("typed on")
    await tab.presses("Minimize")
    await expect(tab.pill.get_by_text("test")).to_be_hidden()
    await tab.has_no_barriers()
    await tab.page.reload()
    await expect(tab.pill).to_be_visible()
    await expect(tab.pill.get_by_text("test")).to_be_hidden()
    await tab.pill.focus()
    await tab.page.keyboard.press("Enter")
    await expect(tab.panel.get_by_role("button", name="Keep awake: 1 h")).to_be_focused()
    await tab.page.keyboard.press("Escape")
    await expect(tab.panel).to_be_hidden()
    await expect(tab.pill).to_be_focused()


@own_origins_only
async def test_files_frames_and_scripts_get_what_the_workspace_sent(tab: Tab) -> None:
    (tab.site.home(tab.workspace) / "page.html").write_text("<p>mine</p>")
    await tab.opens()
    read = "fetch('/files/page.html').then(answer => answer.text())"
    assert await tab.page.evaluate(read) == "<p>mine</p>"
    frame = """() => new Promise(done => {
        const frame = document.createElement('iframe');
        frame.onload = () => done(frame.contentDocument.documentElement.outerHTML);
        frame.src = '/';
        document.body.append(frame);
    })"""
    assert "menu.js" not in await tab.page.evaluate(frame)
    link = "<a download='page.html' href='/?download'>it</a>"
    await tab.page.evaluate(f'document.body.insertAdjacentHTML("beforeend", "{link}")')
    async with tab.page.expect_download() as loading:
        await tab.page.get_by_role("link", name="it").click()
    assert "menu.js" not in (await (await loading.value).path()).read_text()


@own_origins_only
async def test_a_hidden_tab_asks_nothing_and_one_that_is_seen_again_does(tab: Tab) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url) if "menu/status" in request.url else None)
    await tab.opens()
    hidden = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true})"
    change = "document.dispatchEvent(new Event('visibilitychange'))"
    await tab.page.evaluate(f"{hidden % 'true'}; {change}")
    before = len(asked)
    tab.site.admin.set_state(tab.workspace, "STANDBY")
    await tab.site.becomes(tab.workspace, "STANDBY")
    await expect(tab.notice).to_be_hidden()
    assert len(asked) == before
    await tab.page.evaluate(f"{hidden % 'false'}; {change}")
    await expect(tab.notice).to_contain_text("has stopped")


async def test_a_hostile_page_reaches_the_menu_of_its_own_workspace_alone(tab: Tab) -> None:
    """Which its owner's code may use, as it may use the workspace; another's it does not reach."""
    other = await tab.site.workspace("test")
    await tab.opens()
    main, own = tab.site.url(tab.host), f"{tab.site.url(f'{other}.{OWN_ORIGINS}')}/.codehub/menu/"
    targets = [f"{main}/w/{other}/.codehub/menu/", own] if tab.host == OWN_ORIGINS else [f"/w/{other}/.codehub/menu/"]
    press = """url => fetch(url, {method: 'POST', credentials: 'include', mode: 'no-cors'})
        .then(answer => `${answer.type} ${answer.status}`, () => 'refused')"""
    for target in targets:
        for what in ("stop", "keep-awake?hours=24"):
            assert await tab.page.evaluate(press, target + what) in {"refused", "opaque 0"}
        read = "url => fetch(url, {credentials: 'include'}).then(answer => answer.text(), () => 'refused')"
        assert await tab.page.evaluate(read, target + "status") == "refused"
    seen = tab.site.admin.workspace(other)
    assert (seen.desired_state, seen.keep_awake_until) == ("RUNNING", None)
    tab.site.admin.delete_workspace(other, purge=True, confirm=True)


@own_origins_only
async def test_it_comes_back_by_itself_after_the_connection_was_lost(tab: Tab) -> None:
    await tab.opens()
    await tab.page.context.set_offline(True)
    await tab.page.context.set_offline(False)
    tab.site.admin.set_state(tab.workspace, "STANDBY")
    await expect(tab.notice).to_contain_text("has stopped", timeout=60_000)


@pytest.mark.parametrize("host", [OWN_ORIGINS, PATH_MODE])
async def test_beside_jupyterlab(
    request: pytest.FixtureRequest, browser_context: BrowserContext, page: Page, host: str
) -> None:
    installed("jupyterlab")
    site: Site = request.getfixturevalue("path_site" if host == PATH_MODE else "site")
    await site.log_in(browser_context, host)
    workspace = await site.workspace("jupyterlab")
    tab, ide = Tab(site, host, workspace, page), JupyterLab(page)
    (site.home(workspace) / "notes.txt").touch()
    (site.home(workspace) / "notes.txt").chmod(0o666)
    await page.goto(tab.address)
    await ide.is_shown()
    await expect(tab.pill).to_be_visible()
    await tab.has_no_barriers()
    await ide.edit("notes.txt", "typed here")
    await tab.pill.click()
    await page.keyboard.type(" and on")
    await ide.shows("typed here and on")
    await page.keyboard.press("Control+s")

    async def is_saved() -> bool:
        return (site.home(workspace) / "notes.txt").read_text().strip() == "typed here and on"

    await eventually_async(is_saved, "the shortcut of the IDE works with the menu open", 30)
    await tab.presses("Stop")
    await tab.presses("Stop now?")
    await expect(tab.notice).to_contain_text("has stopped", timeout=60_000)
    await tab.notice.get_by_role("button", name="Start again").click()
    await ide.is_shown()
    await expect(tab.pill).to_be_visible()
    site.admin.delete_workspace(workspace, purge=True, confirm=True)
