"""The dashboard's tables, dialogs and figures: sorted, narrowed, on a phone, and without barriers."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from playwright.async_api import Browser, expect

from codehub.drivers.base import InstanceUsage
from codehub.model.workspace import WorkspaceId
from codehub.signals.connect import open_redis
from codehub.signals.usage import HomeSize, Measurement, RedisUsage
from tests.browser.dashboard import SLOW_MS, Dashboard
from tests.browser.test_dashboard import dashboard_of
from tests.cli.site import PASSWORD, Site, running_site
from tests.support import Databases

pytestmark = pytest.mark.exhaustive

SMALL_PHONE = {"width": 375, "height": 667}
TABLES = ("/admin/workspaces", "/admin/users", "/admin/audit", "/account")


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis) as site:
        yield site


@pytest.fixture
async def root(chromium: Browser, site: Site) -> AsyncIterator[Dashboard]:
    async with dashboard_of(chromium, site.url, "root") as root:
        yield root


async def test_what_a_workspace_uses_is_shown_with_gaps_where_nothing_is_known(
    root: Dashboard, site: Site, server_redis: str
) -> None:
    identity = WorkspaceId(UUID(await root.create("measured")))
    await root.sees_state("Running")

    def use() -> None:
        usage = InstanceUsage(cpus=0.5, memory_bytes=500_000_000, ports=(8888,))
        site.world.instances[identity] = replace(site.world.instances[identity], usage=usage)

    site.loop.call_soon_threadsafe(use)
    now = datetime.now(UTC)
    async with open_redis(server_redis) as redis:
        for minutes, cpus in ((240, 0.25), (235, 0.5), (230, None), (225, 0.75), (60, 0.5), (55, 0.25)):
            point = Measurement(now - timedelta(minutes=minutes), cpus, 400_000_000)
            await RedisUsage(redis).add({identity: point})
        await RedisUsage(redis).leave_homes({identity: HomeSize(now, 3_000_000_000)})
    panel = root.page.get_by_role("region", name="Resources")
    await expect(panel.get_by_role("link", name="8888")).to_be_visible(timeout=SLOW_MS)
    await expect(panel).to_contain_text("500 MB")
    await expect(panel).to_contain_text("Home on disk3.0 GB", timeout=SLOW_MS)
    await panel.get_by_text("Last 24 hours").click()
    cpu = panel.locator("figure", has_text="CPU").first
    await expect(cpu.locator("polyline")).to_have_count(3)
    await expect(panel.locator("figure", has_text="Memory").locator("polyline")).to_have_count(2)
    await root.has_no_barriers()
    await root.delete("measured", purge=True)


async def test_one_that_does_not_run_shows_how_large_its_archive_is(root: Dashboard) -> None:
    await root.create_archived_once("packed")
    panel = root.page.get_by_role("region", name="Resources")
    await expect(panel).to_contain_text("Last archive", timeout=SLOW_MS)
    await expect(panel).not_to_contain_text("CPU")
    await root.delete("packed", purge=True)


async def test_a_table_is_sorted_and_narrowed_in_its_address(root: Dashboard) -> None:
    for name in ("sorted b", "sorted a"):
        await root.create(name, start=False)
        await root.sees_state("Archived")
    await root.visit("/admin/workspaces")
    await root.page.get_by_label("Search by name").fill("sorted")
    await root.page.get_by_role("button", name="Name").click()
    names = root.page.locator("tbody th")
    await expect(names).to_have_text(["sorted a", "sorted b"])
    await expect(root.page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    await root.page.get_by_role("button", name="Name").click()
    await expect(names).to_have_text(["sorted b", "sorted a"])
    assert root.page.url.endswith("/admin/workspaces?q=sorted&sort=-name")
    await root.has_no_barriers()
    await root.page.reload()
    await expect(names).to_have_text(["sorted b", "sorted a"])
    await root.page.get_by_label("Show").select_option("RUNNING")
    await expect(names).to_have_count(0)
    await root.visit("/admin/users?sort=-name")
    await expect(root.page.locator("tbody th")).to_have_text(["root", "ada"])
    await root.page.get_by_role("button", name="User", exact=True).click()
    await expect(root.page.locator("tbody th")).to_have_text(["ada", "root"])
    for name in ("sorted a", "sorted b"):
        await root.visit("/")
        await root.page.get_by_role("link", name=name, exact=True).click()
        await root.delete(name, purge=True)


async def test_the_audit_log_is_narrowed_in_its_address_and_taken_along(root: Dashboard) -> None:
    await root.create("audited", start=False)
    await root.sees_state("Archived")
    await root.visit("/admin/audit")
    await root.page.get_by_label("Action").select_option("workspace.create")
    lines = root.page.locator("tbody tr")
    await expect(lines.first).to_contain_text("made a audited")
    await expect(lines.filter(has_text="logged in")).to_have_count(0)
    await root.page.get_by_label(re.compile("^User")).select_option(label="ada")
    await expect(lines).to_have_count(0)
    await root.page.reload()
    await expect(root.page.get_by_label("Action")).to_have_value("workspace.create")
    await expect(lines).to_have_count(0)
    await root.page.get_by_label(re.compile("^User")).select_option(label="root")
    await expect(lines.first).to_contain_text("audited")
    await root.page.get_by_role("button", name="Time").click()
    await expect(root.page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    await root.has_no_barriers()
    async with root.page.expect_download() as downloading:
        await root.page.get_by_role("link", name="Download CSV").click()
    text = (await (await downloading.value).path()).read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["action"] for row in rows} == {"workspace.create"}
    assert "audited" in {row["workspace"] for row in rows}
    await root.visit("/")
    await root.page.get_by_role("link", name="audited", exact=True).click()
    await root.delete("audited", purge=True)


async def test_a_generated_password_logs_in_and_the_dialogs_have_no_barriers(
    root: Dashboard, chromium: Browser, site: Site
) -> None:
    await root.visit("/admin/users")
    await root.page.get_by_label("User", exact=True).fill("grace")
    await root.page.get_by_role("button", name="Generate").click()
    password = await root.page.get_by_label("Password", exact=True).input_value()
    assert re.fullmatch(r"([a-z0-9]{5}-){3}[a-z0-9]{5}", password)
    await root.button("Add").click()
    await _prove(root)
    row = root.page.locator("tbody tr", has_text="grace")
    await expect(row).to_contain_text("a password")
    dialog = root.page.get_by_role("dialog")
    for verb in ("Limits", "Set password", "Delete"):
        await row.get_by_role("button", name=re.compile(f"^{verb}")).click()
        await expect(dialog).to_be_visible()
        await root.has_no_barriers()
        await root.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    context = await chromium.new_context()
    grace = Dashboard(await context.new_page(), site.url)
    await grace.visit()
    await grace.log_in("grace", password)
    await context.close()
    await row.get_by_role("button", name=re.compile("^Delete")).click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(root.page.locator("tbody tr", has_text="grace")).to_have_count(0)


async def _prove(root: Dashboard) -> None:
    dialog = root.page.get_by_role("dialog", name="Confirm your password")
    await dialog.locator("input").fill(PASSWORD)
    await dialog.get_by_role("button", name="Confirm").click()
    await expect(dialog).to_have_count(0)


async def test_orphans_are_listed_and_removed_as_such(root: Dashboard) -> None:
    await root.visit("/admin/archives")
    await root.button("List orphans").click()
    run = root.page.locator(".run").first
    await expect(run).to_contain_text("orphans listed", timeout=SLOW_MS)
    await expect(run).to_contain_text("workspaces found on backends", timeout=SLOW_MS)
    await root.button("Remove orphans…").click()
    await root.has_no_barriers()
    await root.page.get_by_role("dialog").get_by_role("button", name="Remove orphans").click()
    await expect(run).to_contain_text("orphans removed", timeout=SLOW_MS)
    await root.button("Dry run").click()
    await expect(run).to_contain_text("not remembered, kept", timeout=SLOW_MS)


async def test_tables_fit_a_phone(chromium: Browser, site: Site) -> None:
    async with dashboard_of(chromium, site.url, "root", viewport=SMALL_PHONE, has_touch=True) as root:
        await root.create("a rather long name for something small", start=False)
        await root.sees_state("Archived")
        await root.visit("/account")
        await root.page.get_by_label("What it is for").fill("a token with a rather long name, too")
        await root.button("Make a token").click()
        await _prove(root)
        await expect(root.page.locator(".secret")).to_be_visible()
        for path in TABLES:
            await root.visit(path)
            await expect(root.page.locator("tbody tr").first).to_be_visible()
            wide = await root.page.locator(".scroll").evaluate_all(
                "all => all.filter((each) => each.scrollWidth > each.clientWidth).length"
            )
            assert wide == 0, path
            await root.has_no_barriers()
        await root.visit("/")
        await root.page.get_by_role("link", name="a rather long name for something small", exact=True).click()
        await root.delete("a rather long name for something small", purge=True)


async def test_a_dialog_begins_in_its_text_field(root: Dashboard) -> None:
    await root.create("typed", start=False)
    await root.sees_state("Archived")
    await root.button("Delete").click()
    await expect(root.page.get_by_role("dialog").get_by_label("Type typed to confirm")).to_be_focused()
    await root.page.keyboard.type("typed")
    await root.page.keyboard.press("Enter")
    await expect(root.page.locator(".toast")).to_contain_text("typed goes to the trash.")
    await root.visit("/trash")
    await root.row("typed").get_by_role("button", name="Delete for good").click()
    await expect(root.page.get_by_role("dialog").get_by_label("Type typed to confirm")).to_be_focused()
    await root.page.keyboard.type("typed")
    await root.page.keyboard.press("Enter")
    await expect(root.row("typed").get_by_role("button")).to_have_count(0, timeout=SLOW_MS)
