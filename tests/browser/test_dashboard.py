"""The dashboard over a world in memory: people, limits, errors, a cut connection, languages, light, phones, keys."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
from playwright.async_api import Browser, Page, Route, expect

from codehub.drivers.memory.faults import Misbehaviour
from codehub.model.workspace import WorkspaceId
from tests.browser.dashboard import AXE, SLOW_MS, Dashboard, opened
from tests.cli.site import PASSWORD, Site, running_site
from tests.lab.wire import mended, wire_to_url
from tests.support import Databases, missing

pytestmark = pytest.mark.exhaustive

SCREENS = ["/", "/workspaces/new", "/trash", "/account", "/admin", "/admin/workspaces", "/admin/errors"]
SCREENS += ["/admin/users", "/admin/archives", "/admin/audit"]
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis) as site:
        yield site


@asynccontextmanager
async def dashboard_of(
    browser: Browser, url: str, username: str = "ada", *, button: str = "Log in", **options: Any
) -> AsyncIterator[Dashboard]:
    """Somebody's browser, logged in. Anything that breaks in the page fails the test."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    broken: list[str] = []

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.on("console", lambda said: broken.append(said.text) if "Content Security Policy" in said.text else None)

    context.on("page", watch)
    try:
        dashboard = await opened(context, url)
        await dashboard.log_in(username, PASSWORD, button=button)
        yield dashboard
    finally:
        await context.close()
    assert not broken


async def test_two_users_do_not_see_each_other(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada, dashboard_of(chromium, site.url, "root") as root:
        identity = await root.create("a secret", start=False)
        await root.sees_state("Archived")
        await ada.visit(f"/workspaces/{identity}")
        await expect(ada.page.get_by_text("There is no such workspace.")).to_be_visible()
        await ada.visit("/admin/users")
        await expect(ada.page.get_by_text("Page not found")).to_be_visible()
        await ada.visit("/")
        await expect(ada.page.get_by_role("heading", name="Make your first workspace")).to_be_visible()
        await root.delete("a secret", purge=True)


async def test_one_too_many_is_explained_with_the_way_out(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        for name in ("one", "two"):
            await ada.create(name)
            await ada.sees_state("Running")
        await ada.visit("/workspaces/new")
        await ada.page.get_by_label("Name", exact=True).fill("three")
        await ada.button("Make it").click()
        alert = ada.page.get_by_role("alert")
        await expect(alert).to_contain_text("as many as you may")
        await expect(alert.get_by_role("link", name="one")).to_be_visible()
        await ada.button("Make it without starting").click()
        await ada.button("Make it").click()
        await ada.sees_state("Archived")
        await ada.button("Start").click()
        await ada.page.locator(".toast").get_by_role("button", name="Stop “one” and open “three”").click()
        await ada.sees_state("Running")
        for name in ("one", "two", "three"):
            await ada.visit("/")
            await ada.page.get_by_role("link", name=name, exact=True).click()
            await ada.delete(name, purge=True)


async def test_an_error_is_explained_and_recovered_from(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        identity = await ada.create_archived_once("lost and found")
        site.misfortune("lose_volume", identity)
        await ada.sees_state("Needs you")
        recovery = ada.page.get_by_role("region", name="It needs you")
        await expect(recovery).to_contain_text("Its home has disappeared from disk")
        await ada.has_no_barriers()
        async with dashboard_of(chromium, site.url, "root") as root:
            await root.visit("/admin/errors")
            await expect(root.page.get_by_role("link", name="lost and found")).to_be_visible()
            await root.picture("errors")
        await recovery.get_by_label("After recovery").select_option("RUNNING")
        await recovery.get_by_role("button", name="Go back to the archive").click()
        await ada.button("Yes, do that").click()
        await ada.sees_state("Running")
        await expect(recovery).to_have_count(0)
        await ada.delete("lost and found", purge=True)


async def test_safe_mode_is_shown_and_archives_are_files(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await ada.create_archived_once("stuck")
        archives = ada.page.get_by_role("region", name="Archives")
        await expect(archives).to_contain_text("The home directory on disk is newer")
        async with ada.page.expect_download() as started:
            await archives.get_by_role("link", name="Download").click()
        assert (await started.value).suggested_filename == "stuck.tar.zst"
        assert json.loads((await (await started.value).path()).read_bytes()) == {}
        await ada.has_no_barriers()
        await ada.button("Start in safe mode").click()
        await ada.sees_state("Running")
        await expect(ada.page.get_by_text("Safe mode", exact=True)).to_be_visible()
        await ada.button("Stop").click()
        await ada.sees_state("Stopped")
        await expect(ada.page.get_by_text("Safe mode", exact=True)).to_have_count(0)
        await ada.delete("stuck", purge=True)


async def test_a_home_that_would_be_lost_is_asked_about(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        identity = await ada.create("unlucky")
        await ada.sees_state("Running")
        await _put_in_error(site, identity)
        await ada.sees_state("Needs you")
        await ada.button("Delete").click()
        dialog = ada.page.get_by_role("dialog")
        await dialog.get_by_label("Type unlucky to confirm").fill("unlucky")
        await dialog.get_by_role("button", name="Delete", exact=True).click()
        await expect(dialog).to_contain_text("they are lost")
        await dialog.get_by_role("button", name="Delete, and lose the files").click()
        await expect(ada.page.get_by_role("heading", name="Workspaces")).to_be_visible()


async def _put_in_error(site: Site, identity: str) -> None:
    """An error that left the home where it is, as the controller would have written it."""
    async with await psycopg.AsyncConnection.connect(site.database, autocommit=True) as conn:
        await conn.execute(
            """UPDATE workspaces SET phase = 'ERROR', endpoint = NULL, error_reason = 'Timeout', error_count = 1
               WHERE id = %s""",
            [UUID(identity)],
        )


async def test_news_stop_and_come_back(chromium: Browser, site: Site) -> None:
    async with (
        mended(wire_to_url(site.url)) as wire,
        dashboard_of(chromium, site.url) as there,
        dashboard_of(chromium, f"http://127.0.0.1:{wire.port}") as here,
    ):
        await there.create("news", start=False)
        await here.visit("/")
        await expect(here.row("news")).to_contain_text("Archived", timeout=SLOW_MS)
        await wire.cut()
        banner = here.page.get_by_text("The connection was lost.")
        await expect(banner).to_be_visible(timeout=SLOW_MS)
        await there.button("Restore, do not start").click()
        await there.sees_state("Stopped")
        await expect(here.row("news")).to_contain_text("Archived")
        await wire.mend()
        await expect(here.row("news")).to_contain_text("Stopped", timeout=SLOW_MS)
        await expect(banner).to_have_count(0, timeout=SLOW_MS)
        await there.delete("news", purge=True)
        await expect(here.row("news")).to_have_count(0, timeout=SLOW_MS)


async def test_a_network_that_changes_for_a_moment_is_not_noticed(chromium: Browser, site: Site) -> None:
    """Chromium fails whatever is under way then. What was to be read is asked for again; what was to be done is not."""
    async with dashboard_of(chromium, site.url) as ada:
        away = ada.page.get_by_text("CodeHub does not answer.")
        failed: list[str] = []

        async def fail_the_first(route: Route) -> None:
            asked = f"{route.request.method} {urlsplit(route.request.url).path}"
            if asked in failed:
                await route.fallback()
            else:
                failed.append(asked)
                await route.abort("internetdisconnected")

        await ada.page.route(re.compile("/api/v1/(session|workspaces)"), fail_the_first)
        await ada.visit("/")
        await expect(ada.page.get_by_role("heading", name="Make your first workspace")).to_be_visible()
        assert "GET /api/v1/session" in failed
        await ada.page.get_by_role("link", name="New workspace").first.click()
        await ada.page.get_by_label("Name", exact=True).fill("once")
        await ada.page.get_by_label("Start it now").uncheck()
        await expect(away).to_have_count(0)
        await ada.button("Make it").click()
        await expect(away).to_be_visible()
        await ada.button("Make it").click()
        await ada.sees_state("Archived")
        assert "POST /api/v1/workspaces" in failed
        await ada.page.unroute_all()
        await ada.delete("once", purge=True)


async def test_a_list_is_searched_narrowed_and_sorted(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        for name, about in _EXAMPLES.items():
            await ada.create(name, about=about, start=name == "thesis")
            await ada.sees_state("Running" if name == "thesis" else "Archived")
        await ada.button("Restore, do not start").click()
        await ada.sees_state("Stopped")
        await ada.visit("/")
        await expect(ada.page.locator(".row")).to_have_count(len(_EXAMPLES))
        await ada.picture("workspaces")
        await ada.page.emulate_media(color_scheme="dark")
        await ada.picture("workspaces-dark")
        await ada.page.get_by_role("button", name="Running").click()
        await expect(ada.page.locator(".row-name")).to_have_text(["thesis"])
        await ada.page.get_by_role("button", name="All").click()
        await ada.page.get_by_label("Order").select_option("name")
        await expect(ada.page.locator(".row-name")).to_have_text(sorted(_EXAMPLES))
        await ada.page.get_by_label("Search by name").fill("data")
        await expect(ada.page.locator(".row-name")).to_have_text(["data cleaning"])
        await ada.page.get_by_label("Search by name").fill("nothing like it")
        await ada.button("Show all").click()
        await expect(ada.page.locator(".row")).to_have_count(len(_EXAMPLES))
        for name in _EXAMPLES:
            await ada.visit("/")
            await ada.page.get_by_role("link", name=name, exact=True).click()
            await ada.delete(name, purge=True)


_EXAMPLES = {
    "thesis": "Everything for chapter 3",
    "course 2026": "Exercises and their solutions",
    "data cleaning": "The survey of spring",
    "website": "The group's pages",
}

# Two days as they might have been.
_PAST = """
INSERT INTO samples (at, running, standby, archived, pending, error)
SELECT now() - number * interval '5 minutes', 20 + 12 * sin(number / 46.0), 30 + 9 * cos(number / 46.0),
       120 + (576 - number) / 20, 0, number / 500
FROM generate_series(1, 576) AS number
"""
_COLLECTIONS = """
INSERT INTO gc_runs (id, requested_at, started_at, finished_at, report)
SELECT gen_random_uuid(), at, at, at, jsonb_build_object('found', 120, 'bytes', 4e10 + 9e8 * number)
FROM (SELECT number, now() - (12 - number) * interval '2 hours' AS at FROM generate_series(1, 12) AS number) AS made
"""
_STARTS = """
INSERT INTO workspace_history (workspace_id, at, phase, operation, duration_ms)
SELECT %(id)s, now() - number * interval '10 minutes' + step * interval '2 seconds',
       (ARRAY['ARCHIVED', 'STANDBY', 'STANDBY', 'RUNNING'])[step + 1]::workspace_state,
       (ARRAY['RESTORING', 'NONE', 'STARTING', 'NONE'])[step + 1]::workspace_operation,
       (ARRAY[NULL, 4000 + number %% 7 * 900, 20, 1300 + number %% 5 * 250])[step + 1]
FROM generate_series(1, 140) AS number, generate_series(0, 3) AS step
"""


async def test_administrators_see_the_past_plotted_and_the_whole_s_health(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url, "root", viewport={"width": 1280, "height": 1010}) as root:
        identity = await root.create("measured")
        await root.sees_state("Running")
        async with await psycopg.AsyncConnection.connect(site.database, autocommit=True) as conn:
            for statement in ("DELETE FROM samples", "DELETE FROM gc_runs", _PAST, _COLLECTIONS):  # another past
                await conn.execute(statement)
            await conn.execute(_STARTS, {"id": UUID(identity)})
        await root.visit("/admin")
        for title in ("Workspaces", "Archives", "Starting, seconds", "Restoring, seconds"):
            await expect(root.page.get_by_role("img", name=title)).to_be_visible()
        await expect(root.page.locator(".health").first).to_contain_text("Coordinator")
        await expect(root.page.get_by_text("1 of 100")).to_be_visible()
        await root.has_no_barriers()
        await root.picture("administration")
        await root.visit("/admin/archives")
        await root.button("Dry run").click()
        await expect(root.page.locator(".run").first).to_contain_text("dry run")
        await expect(root.page.locator(".run").first).to_contain_text("archives found", timeout=SLOW_MS)
        await root.visit(f"/workspaces/{identity}")
        await root.delete("measured", purge=True)


async def test_administrators_see_what_is_wrong_and_may_force_the_way_out(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url, "root") as root:
        site.loop.call_soon_threadsafe(
            lambda: site.world.misbehave("instances.start", Misbehaviour.IMAGE_MISSING, times=1)
        )
        identity = await root.create("stuck")
        await root.sees_state("Needs you")
        await root.visit("/admin")
        finding = root.page.locator(".findings li", has_text="1 workspace is in ERROR.")
        await expect(finding).to_contain_text("deserves a look")
        await finding.get_by_text("CH-OP-2: what to do").click()
        await expect(finding).to_contain_text("codehub ws recover")
        await root.has_no_barriers()
        names = await root.page.locator(".health li strong").all_inner_texts()
        assert "Coordinator" in names
        assert len(set(names)) == len(names), "each says by its name what it is"
        await root.page.get_by_label("Language").select_option("ko")
        await expect(finding.locator("p").first).to_have_attribute("lang", "en")  # it is read out as what it is
        await expect(finding.locator("[lang=en]").get_by_text("CH-OP-2: 해야 할 일")).to_have_count(0)
        await root.page.get_by_label("언어").select_option("en")
        await root.visit(f"/workspaces/{identity}")
        recovery = root.page.get_by_role("region", name="It needs you")
        await expect(recovery.get_by_role("button", name="Begin with an empty home")).to_be_hidden()
        await recovery.get_by_text("Give up the home on disk").click()
        await recovery.get_by_role("button", name="Begin with an empty home").click()
        await expect(root.page.get_by_role("dialog")).to_contain_text("It is deleted for good")
        await root.button("Yes, do that").click()
        await root.sees_state("Running")
        await root.delete("stuck", purge=True)


async def test_a_home_that_turns_up_while_one_is_asked_is_not_given_up_by_the_same_yes(
    chromium: Browser, site: Site
) -> None:
    """The administrator said yes to going back to an archive for want of a home, not to giving one up."""
    async with dashboard_of(chromium, site.url, "root") as root:
        identity = await root.create_archived_once("turns up")
        which = WorkspaceId(UUID(identity))
        volume = site.world.volumes[which]
        site.misfortune("lose_volume", identity)
        await root.sees_state("Needs you")
        recovery = root.page.locator("section.recovery")
        await recovery.get_by_role("button", name="Go back to the archive").click()
        dialog = root.page.get_by_role("dialog")
        await expect(dialog).to_be_visible()

        def turn_up() -> None:
            site.world.volumes[which] = volume
            site.world.changed()

        site.loop.call_soon_threadsafe(turn_up)
        await expect(recovery.locator(".choices")).not_to_contain_text("Go back to the archive", timeout=SLOW_MS)
        await expect(dialog).not_to_contain_text("It is deleted for good")
        await root.button("Yes, do that").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("choose how to recover it")
        assert site.world.volumes[which] is volume
        await dialog.get_by_role("button", name="Cancel").click()
        await root.delete("turns up", purge=True)


async def test_what_others_changed_meanwhile_is_not_lost(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as one, dashboard_of(chromium, site.url) as two:
        identity = await one.create("shared", start=False)
        await one.sees_state("Archived")
        await one.button("Write").click()
        await one.page.locator("textarea").fill("mine")
        await two.visit(f"/workspaces/{identity}")
        await two.button("Write").click()
        await two.page.locator("textarea").fill("- **theirs**\n- [bad](javascript:alert(1))")
        await two.button("Save").click()
        await expect(two.page.locator(".markdown strong")).to_have_text("theirs")
        await expect(two.page.locator(".markdown a")).to_have_count(0)
        await one.button("Save").click()
        await expect(one.page.get_by_text("Somebody changed this while you were editing.")).to_be_visible()
        await one.button("Save mine instead").click()
        await expect(two.page.locator(".markdown")).to_have_text("mine")
        await one.delete("shared", purge=True)


async def test_korean_by_the_browser_s_language_and_by_choice(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url, "root", button="로그인", locale="ko-KR") as root:
        for path in SCREENS:
            await root.visit(path)
            await expect(root.page.locator("h1")).to_have_text(re.compile("[가-힣]"))
            shown = await root.page.locator("main").inner_text()
            assert not re.search(r"\b(the|Make|Delete|Running|Loading)\b", shown), shown
        await root.page.get_by_label("언어").select_option("en")
        await expect(root.page.locator("h1")).to_have_text("Administration")
        await root.page.reload()
        await expect(root.page.locator("h1")).to_have_text("Administration")


@pytest.mark.parametrize("light", ["light", "dark"])
async def test_no_screen_has_barriers(chromium: Browser, site: Site, light: Any) -> None:
    if not AXE.exists():
        missing("the dashboard's packages", "make dashboard")
    async with dashboard_of(chromium, site.url, "root", color_scheme=light) as root:
        identity = await root.create("barriers", tags="gpu, course")
        await root.sees_state("Running")
        for path in [*SCREENS, f"/workspaces/{identity}"]:
            await root.visit(path)
            await expect(root.page.locator("h1")).to_be_visible()
            await expect(root.page.locator(".waiting")).to_have_count(0)
            await root.has_no_barriers()
        await expect(root.page.get_by_role("region", name="Resources")).to_be_visible(timeout=SLOW_MS)
        await root.has_no_barriers()
        await root.visit("/?tag=gpu")
        await root.page.get_by_label("Select barriers").check()
        await expect(root.page.get_by_role("toolbar", name="Selected workspaces")).to_be_visible()
        await root.has_no_barriers()
        await root.visit("/admin/users")
        for verb in ("Limits ada", "Set password ada", "Delete ada"):
            await root.button(verb).click()
            await expect(root.page.get_by_role("dialog")).to_be_visible()
            await root.has_no_barriers()
            await root.page.keyboard.press("Escape")
        await root.visit("/admin")
        await root.page.get_by_text("Change limits").click()
        await root.has_no_barriers()
        await root.visit(f"/workspaces/{identity}")
        await root.delete("barriers", purge=True)


async def test_on_a_phone_nothing_is_wider_than_the_screen(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url, "root", viewport=PHONE, has_touch=True) as root:
        identity = await root.create("a rather long name for something small", start=False)
        await root.sees_state("Archived")
        for path in [*SCREENS, f"/workspaces/{identity}"]:
            await root.visit(path)
            await expect(root.page.locator("h1")).to_be_visible()
            await expect(root.page.locator(".waiting")).to_have_count(0)
            wide = await root.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, path
            if path == "/":
                await root.picture("phone")
        await root.visit(f"/workspaces/{identity}")
        await root.delete("a rather long name for something small", purge=True)


async def test_everything_is_reachable_with_keys(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        await ada.visit("/workspaces/new")
        await expect(ada.page.get_by_label("Name", exact=True)).to_be_focused()
        await ada.page.keyboard.type("keys")
        await ada.page.keyboard.press("Enter")
        await ada.sees_state("Running")
        await ada.button("Delete").focus()
        await ada.page.keyboard.press("Enter")
        await expect(ada.page.get_by_role("dialog")).to_be_visible()
        await ada.page.keyboard.press("Escape")
        await expect(ada.page.get_by_role("dialog")).to_have_count(0)
        await expect(ada.button("Delete")).to_be_focused()
        await ada.delete("keys", purge=True)


async def test_after_a_login_one_is_where_one_wanted_to_be(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context()
    dashboard = await opened(context, site.url)
    await dashboard.visit("/account")
    await dashboard.log_in("ada", PASSWORD)
    await expect(dashboard.page.get_by_role("heading", name="Your account")).to_be_visible()
    await dashboard.button("Log out").first.click()
    await expect(dashboard.page.get_by_role("heading", name="Log in")).to_be_visible()
    await dashboard.visit("/login?next=//evil.example/")
    await dashboard.log_in("ada", PASSWORD)
    assert dashboard.page.url == f"{site.url}/"
    await context.close()
