"""What is typed into the dashboard: settings, tags, notes, copies, images by reference; and what is done to many."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Browser, Locator, expect

from codehub.model.workspace import InstanceBackend
from tests.browser.dashboard import SLOW_MS, Dashboard
from tests.browser.test_dashboard import dashboard_of
from tests.cli.site import Site, running_site
from tests.support import Databases

pytestmark = pytest.mark.exhaustive

IMAGES = {InstanceBackend.PROCESS: ["ide", "jupyterlab", "registry.example/team/*"]}
CONFLICT = "Somebody changed this while you were editing."


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis, IMAGES) as site:
        yield site


def settings_of(dashboard: Dashboard) -> Locator:
    return dashboard.page.get_by_role("region", name="Settings")


async def test_settings_are_saved_and_tags_narrow_the_list(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        identity = await ada.create("set up", start=False)
        await ada.sees_state("Archived")
        await settings_of(ada).get_by_label("Tags").fill("gpu, course, gpu")
        await settings_of(ada).get_by_label("Stop when unused").select_option("0")
        await ada.button("Save").click()
        await expect(ada.page.locator(".toast")).to_have_text("Saved.")
        await expect(ada.page.get_by_text(CONFLICT)).to_have_count(0)
        await ada.visit(f"/workspaces/{identity}")
        await expect(settings_of(ada).get_by_label("Tags")).to_have_value("gpu, course")
        await expect(settings_of(ada).get_by_label("Stop when unused")).to_have_value("0")
        await ada.create("without tags", start=False)
        await ada.visit("/")
        await ada.row("set up").get_by_role("link", name="gpu", exact=True).click()
        await expect(ada.page.locator(".row-name")).to_have_text(["set up"])
        assert ada.page.url.endswith("/?tag=gpu")
        await ada.has_no_barriers()
        await ada.page.get_by_role("button", name="Remove tag filter").click()
        await expect(ada.page.locator(".row")).to_have_count(2)
        await _purge(ada, "set up", "without tags")


async def test_settings_that_others_changed_meanwhile_are_told(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as one, dashboard_of(chromium, site.url) as two:
        identity = await one.create("contested", start=False)
        await one.sees_state("Archived")
        await settings_of(one).get_by_label("Tags").fill("mine")
        await two.visit(f"/workspaces/{identity}")
        await settings_of(two).get_by_label("Tags").fill("theirs")
        await two.button("Save").click()
        await expect(two.page.locator(".toast")).to_have_text("Saved.")
        await one.button("Save").click()
        await expect(one.page.get_by_text(CONFLICT)).to_be_visible()
        await one.button("Keep theirs").click()
        await expect(one.page.get_by_text(CONFLICT)).to_have_count(0)
        await expect(settings_of(one).get_by_label("Tags")).to_have_value("theirs")
        await _purge(one, "contested")


async def test_a_draft_does_not_overwrite_what_was_written_after_it_began(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as one, dashboard_of(chromium, site.url) as two:
        identity = await one.create("drafted", start=False)
        await one.sees_state("Archived")
        await one.button("Write").click()
        await one.page.locator("textarea").fill("mine")
        await two.visit(f"/workspaces/{identity}")
        await two.button("Write").click()
        await two.page.locator("textarea").fill("theirs")
        await two.button("Save").click()
        await expect(two.page.locator(".markdown")).to_have_text("theirs")
        await one.page.reload()
        await expect(one.page.locator("textarea")).to_have_value("mine")
        await one.button("Save").click()
        await expect(one.page.get_by_text(CONFLICT)).to_be_visible()
        await one.button("Keep theirs").click()
        await expect(one.page.locator(".markdown")).to_have_text("theirs")
        await _purge(one, "drafted")


async def test_a_reference_can_be_typed_and_a_copy_has_all_of_its_original(chromium: Browser, site: Site) -> None:
    reference = "registry.example/team/ide:1"
    async with dashboard_of(chromium, site.url) as ada:
        identity = await ada.create("original", about="Chapter 3", start=False)
        await ada.sees_state("Archived")
        settings = settings_of(ada)
        await settings.get_by_label("Another image").fill("registry.example/other/ide:1")
        await expect(settings.get_by_text("This image is not allowed.")).to_be_visible()
        await settings.get_by_label("Another image").fill(reference)
        await settings.get_by_label("Tags").fill("gpu, course")
        await settings.get_by_label("Stop when unused").select_option("3600")
        await settings.get_by_label("Archive when stopped").select_option("0")
        await ada.button("Save").click()
        await expect(settings.get_by_label("IDE")).to_have_value(reference)
        await ada.visit(f"/workspaces/new?from={identity}")
        await expect(ada.page.get_by_label("Name", exact=True)).to_have_value("Copy of original")
        await expect(ada.page.get_by_label("Another image")).to_have_value(reference)
        await ada.button("Make it").click()
        await ada.page.wait_for_url(re.compile(r"/workspaces/[0-9a-f-]{36}$"))
        copy = ada.page.url.rpartition("/")[2]
        answer = await ada.page.context.request.get(f"{site.url}/api/v1/workspaces/{copy}")
        made = await answer.json()
        expected: dict[str, object] = {
            "image_ref": reference,
            "backend": "process",
            "tags": ["gpu", "course"],
            "description": "Chapter 3",
        }
        expected |= {"standby_ttl_seconds": 3600, "archive_ttl_seconds": 0}
        assert {name: made[name] for name in expected} == expected
        await _purge(ada, "original", "Copy of original")


async def test_what_is_hidden_is_not_acted_on(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url) as ada:
        for name in ("hidden", "shown"):
            await ada.create(name, start=False)
            await ada.sees_state("Archived")
        await ada.visit("/")
        for name in ("hidden", "shown"):
            await ada.page.get_by_label(f"Select {name}").check()
        await ada.page.get_by_label("Search by name").fill("shown")
        await expect(ada.row("hidden")).to_have_count(0)
        bar = ada.page.get_by_role("toolbar", name="Selected workspaces")
        await expect(bar).to_contain_text("1 selected")
        await bar.get_by_role("button", name="Delete").click()
        await expect(ada.page.get_by_role("dialog").get_by_role("listitem")).to_have_text(["shown"])
        await ada.has_no_barriers()
        await ada.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(ada.page.locator(".toast")).to_have_text("Moved 1 workspace to trash")
        await ada.visit("/")
        await expect(ada.row("hidden")).to_be_visible()
        await expect(ada.row("shown")).to_have_count(0)
        await _purge(ada, "hidden")


async def test_many_are_started_and_stopped_and_what_fails_is_told_as_such(chromium: Browser, site: Site) -> None:
    names = ("first", "second", "third")
    async with dashboard_of(chromium, site.url) as ada:
        for name in names:
            await ada.create(name, start=False)
            await ada.sees_state("Archived")
        await ada.visit("/")
        bar = ada.page.get_by_role("toolbar", name="Selected workspaces")
        for name in names[:2]:
            await ada.page.get_by_label(f"Select {name}").check()
        await ada.has_no_barriers()
        await bar.get_by_role("button", name="Start").click()
        await expect(ada.page.locator(".toast")).to_have_text("Starting 2 workspaces")
        for name in names[:2]:
            await expect(ada.row(name).locator(".badge")).to_have_text("Running", timeout=SLOW_MS)
        await ada.page.get_by_label("Select third").check()
        await bar.get_by_role("button", name="Start").click()
        await expect(ada.page.locator(".toast.bad")).to_contain_text("1 failed. third:")
        await expect(ada.page.get_by_label("Select third")).to_be_checked()
        await bar.get_by_role("button", name="Select all").click()
        await bar.get_by_role("button", name="Stop").click()
        for name in names[:2]:
            await expect(ada.row(name).locator(".badge")).to_have_text("Stopped", timeout=SLOW_MS)
        await _purge(ada, *names)


async def _purge(dashboard: Dashboard, *names: str) -> None:
    for name in names:
        await dashboard.visit("/")
        await dashboard.page.get_by_role("link", name=name, exact=True).click()
        await dashboard.delete(name, purge=True)
