"""The whole life of a workspace, from the first start of CodeHub on, as a new user goes through it in a browser."""

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.async_api import BrowserContext, expect

from tests.browser.dashboard import SLOW_MS, opened
from tests.cli.codehub import Codehub, running
from tests.embedded.support import processes_at
from tests.support import eventually, short_folder


@pytest.fixture(scope="module")
def codehub() -> Iterator[Codehub]:
    folder = short_folder()
    with running(folder / "d", folder / "out") as codehub:
        eventually(codehub.is_ready, "it is ready", 60)
        yield codehub
    eventually(lambda: not processes_at(folder), "no process is left over")
    shutil.rmtree(folder)


async def test_from_the_first_start_to_a_purge(codehub: Codehub, browser_context: BrowserContext) -> None:
    dashboard = await opened(browser_context, codehub.url)
    page = dashboard.page
    await expect(page.get_by_text("First start?")).to_be_visible()
    await dashboard.picture("login")
    await dashboard.log_in("admin", codehub.password)

    await expect(page.get_by_role("heading", name="Make your first workspace")).to_be_visible()
    await dashboard.picture("first")
    await page.locator(".empty").get_by_role("link", name="New workspace").click()
    await page.get_by_label("Name", exact=True).fill("thesis")
    await page.get_by_label("What it is for").fill("Everything for chapter 3")
    await dashboard.picture("create")
    await dashboard.button("Make it").click()
    await dashboard.sees_state("Running")
    await expect(page.get_by_text(re.compile(r"It stops in \d+ minutes"))).to_be_visible()
    await dashboard.picture("workspace")
    identity = page.url.rpartition("/")[2]
    homes = codehub.data / "workspaces" / "homes" / f"ws-{identity}-home"
    await page.get_by_role("link", name="Open").click()
    await expect(page.get_by_role("heading", name=f"workspace {identity}")).to_be_visible()
    await page.evaluate("fetch('files/chapter-3.txt', { method: 'PUT', body: 'written' }).then((answer) => answer.ok)")
    await page.go_back()

    await dashboard.button("Stop").click()
    await dashboard.sees_state("Stopped")
    await dashboard.button("Archive").click()
    await dashboard.sees_state("Archived")
    assert not homes.exists() or not list(homes.iterdir())
    await dashboard.button("Restore, do not start").click()
    await dashboard.sees_state("Stopped")
    assert (next(homes.iterdir()) / "chapter-3.txt").read_text() == "written"
    await expect(page.locator(".timeline")).to_contain_text("Restoring")
    await dashboard.picture("history")
    await page.get_by_role("link", name="Start and open").click()
    await expect(page.get_by_role("heading", name=f"workspace {identity}")).to_be_visible(timeout=SLOW_MS)
    assert await page.evaluate("fetch('files/chapter-3.txt').then((answer) => answer.text())") == "written"
    await page.go_back()
    await page.goto(f"{dashboard.url}/workspaces/{identity}")
    await dashboard.sees_state("Running")

    await dashboard.delete("thesis")
    await dashboard.sees_state("In the trash")
    await page.get_by_role("navigation").get_by_role("link", name="Trash").click()
    await expect(dashboard.row("thesis")).to_contain_text("gone for good in 7 days")
    await dashboard.picture("trash")
    await dashboard.row("thesis").get_by_role("button", name="Bring back").click()
    await dashboard.sees_state("Archived")

    await dashboard.delete("thesis")
    await page.get_by_role("navigation").get_by_role("link", name="Trash").click()
    await dashboard.row("thesis").get_by_role("button", name="Delete for good").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Type thesis to confirm").fill("thesis")
    await dialog.get_by_role("button", name="Delete for good").click()
    await expect(dashboard.row("thesis").get_by_role("button")).to_have_count(0, timeout=SLOW_MS)
