"""The dashboard keeps going: a part that is missing, unsaved notes, limits, a second click, an address of nothing."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.dashboard import SLOW_MS, Dashboard
from tests.browser.test_dashboard import dashboard_of
from tests.cli.site import Site, running_site
from tests.support import Databases

pytestmark = pytest.mark.exhaustive

PART = re.compile(r"/assets/trash-.*\.js$")


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis) as site:
        yield site


async def test_a_part_that_an_upgrade_has_replaced_loads_the_page_anew_once(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        asked = await _refuse_parts(ada.page, times=1)
        await ada.page.get_by_role("link", name="Trash").click()
        await expect(ada.page.get_by_role("heading", name="Trash", exact=True)).to_be_visible()
        assert len(asked) >= 2, "it was asked for again, by the page that was loaded anew"


async def test_a_part_that_stays_missing_is_told_with_a_way_on(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await _refuse_parts(ada.page, times=1000)
        await ada.page.get_by_role("link", name="Trash").click()
        await expect(ada.button("Reload")).to_be_visible()
        await ada.has_no_barriers()
        await ada.page.get_by_role("link", name="Workspaces").first.click()
        await expect(ada.page.get_by_role("heading", name="Make your first workspace")).to_be_visible()
        await ada.page.unroute(PART)


async def _refuse_parts(page: Page, *, times: int) -> list[str]:
    asked: list[str] = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        await (route.fulfill(status=404, body="") if len(asked) <= times else route.continue_())

    await page.route(PART, answer)
    return asked


async def test_notes_that_were_not_saved_are_there_again(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await ada.create("noted", start=False)
        await ada.sees_state("Archived")
        await ada.page.get_by_role("region", name="Notes").get_by_role("button").click()
        await ada.page.get_by_label("Notes").last.fill("half a thought")
        await ada.page.get_by_role("link", name="Workspaces").first.click()
        await ada.page.get_by_role("link", name="noted", exact=True).click()
        await expect(ada.page.locator("textarea")).to_have_value("half a thought")
        await ada.page.reload()
        await expect(ada.page.locator("textarea")).to_have_value("half a thought")
        await ada.button("Save").click()
        await expect(ada.page.get_by_text("half a thought")).to_be_visible()
        await ada.page.reload()
        await expect(ada.page.locator("textarea")).to_have_count(0)
        await ada.delete("noted", purge=True)


async def test_what_a_limit_refused_is_one_click_away(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        for name in ("one", "two"):
            await ada.create(name)
            await ada.sees_state("Running")
        await ada.visit("/workspaces/new")
        await ada.page.get_by_label("Name", exact=True).fill("three")
        await ada.button("Make it").click()
        await ada.button("Stop “one” and create").click()
        await ada.page.wait_for_url(re.compile(r"/workspaces/[0-9a-f-]{36}$"))
        await ada.sees_state("Running")
        await ada.visit("/")
        await ada.row("one").get_by_role("button", name="Start").click()
        toast = ada.page.locator(".toast")
        await expect(toast).to_contain_text("You've reached your limit")
        await ada.has_no_barriers()
        await toast.get_by_role("button", name="Stop “two” and open “one”").click()
        await expect(ada.row("one").locator(".badge")).to_have_text("Running", timeout=SLOW_MS)
        await expect(ada.row("two").locator(".badge")).to_have_text("Stopped", timeout=SLOW_MS)
        await _clean(ada, "one", "two", "three")


async def test_opening_an_archived_one_starts_it(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        identity = await ada.create("put away", start=False)
        await ada.sees_state("Archived")
        await ada.visit("/")
        await ada.row("put away").get_by_role("link", name="Open").click()
        await ada.page.wait_for_url(re.compile("/w/"))
        await ada.visit(f"/workspaces/{identity}")
        await ada.sees_state("Running")
        await _clean(ada, "put away")


async def test_a_second_click_does_not_stop_what_the_first_has_started(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await ada.create("steady", start=False)
        await ada.sees_state("Archived")
        await ada.visit("/")
        row = ada.row("steady")
        await row.get_by_role("button", name="Start").click()
        stop = row.get_by_role("button", name="Stop")
        await expect(stop).to_be_visible(timeout=SLOW_MS)
        assert await stop.is_disabled(), "it has just become another button"
        await expect(stop).to_be_enabled()
        await _clean(ada, "steady")


async def test_keep_awake_is_a_menu_and_tells_what_was_set(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await ada.create("awake")
        await ada.sees_state("Running")
        await ada.button("Keep awake").click()
        await expect(ada.page.get_by_role("menuitem").first).to_be_focused()
        await ada.has_no_barriers()
        await ada.page.keyboard.press("ArrowDown")
        await ada.page.keyboard.press("Enter")
        await expect(ada.page.locator(".toast")).to_contain_text("Kept awake until")
        await ada.page.get_by_role("button", name=re.compile("^Kept awake: ")).click()
        await ada.page.keyboard.press("Escape")
        await expect(ada.page.get_by_role("menu")).to_have_count(0)
        await ada.page.get_by_role("button", name=re.compile("^Kept awake: ")).click()
        await ada.page.get_by_role("menuitem", name="Turn off").click()
        await expect(ada.button("Keep awake")).to_be_visible()
        await _clean(ada, "awake")


async def test_a_dialog_is_filled_in_at_once_and_a_wrong_address_is_a_page(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await ada.create("typed", start=False)
        await ada.sees_state("Archived")
        await ada.button("Delete").click()
        await expect(ada.page.get_by_role("dialog").locator("input:focus")).to_have_count(1)
        await ada.page.keyboard.press("Escape")
        await _clean(ada, "typed")
        await ada.visit("/nowhere/at/all")
        await expect(ada.page.get_by_role("heading", name="Page not found")).to_be_visible()
        await expect(ada.page.get_by_text("/nowhere/at/all")).to_be_visible()


async def _clean(dashboard: Dashboard, *names: str) -> None:
    for name in names:
        await dashboard.visit("/")
        await dashboard.page.get_by_role("link", name=name, exact=True).click()
        await dashboard.delete(name, purge=True)
        await expect(dashboard.page.get_by_role("dialog")).to_have_count(0)
