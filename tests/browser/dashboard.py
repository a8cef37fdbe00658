"""The dashboard as a person uses it: by what is written on it. And pictures of it, when they are asked for."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, Locator, Page, expect

ROOT = Path(__file__).parents[2]
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = ROOT / "docs" / "images"
SLOW_MS = 60_000


@dataclass(frozen=True)
class Dashboard:
    """One tab of it."""

    page: Page
    url: str

    async def visit(self, path: str = "/") -> None:
        await self.page.goto(self.url + path)

    async def log_in(self, username: str, password: str, *, button: str = "Log in") -> None:
        form = self.page.locator("form")
        await form.locator("input").nth(0).fill(username)
        await form.locator("input").nth(1).fill(password)
        await form.get_by_role("button", name=button).click()
        await expect(self.page.locator("header.top")).to_be_visible(timeout=SLOW_MS)

    async def create(self, name: str, *, about: str = "", tags: str = "", start: bool = True) -> str:
        """A new workspace; its id."""
        await self.visit("/workspaces/new")
        await self.page.get_by_label("Name", exact=True).fill(name)
        await self.page.get_by_label("What it is for").fill(about)
        await self.page.get_by_label("Tags").fill(tags)
        if not start:
            await self.page.get_by_label("Start it now").uncheck()
        await self.button("Make it").click()
        await self.page.wait_for_url(re.compile(r"/workspaces/[0-9a-f-]{36}$"))
        return self.page.url.rpartition("/")[2]

    async def create_archived_once(self, name: str) -> str:
        """… that is stopped, with a home on disk and an archive of it."""
        identity = await self.create(name)
        await self.sees_state("Running")
        await self.button("Archive").click()
        await self.sees_state("Archived")
        await self.button("Restore, do not start").click()
        await self.sees_state("Stopped")
        return identity

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def row(self, name: str) -> Locator:
        return self.page.locator(".row").filter(has=self.page.get_by_role("link", name=name, exact=True))

    async def sees_state(self, word: str) -> None:
        """On the page of one workspace: what it is, once nothing is under way."""
        await expect(self.page.locator(".workspace-head .badge")).to_have_text(word, timeout=SLOW_MS)

    async def delete(self, name: str, *, purge: bool = False) -> None:
        await self.button("Delete").click()
        dialog = self.page.get_by_role("dialog")
        if purge:
            await dialog.get_by_label("Delete it for good").check()
        confirm = dialog.get_by_role("button", name=re.compile("^Delete"))
        await expect(confirm).to_be_disabled()
        await dialog.get_by_label(f"Type {name} to confirm").fill(name)
        await confirm.click()
        await expect(dialog).to_have_count(0)

    async def picture(self, name: str) -> None:
        """For the documentation, with `make screenshots` alone."""
        if "SCREENSHOTS" in os.environ:
            await self.page.wait_for_timeout(300)
            await self.page.screenshot(path=PICTURES / f"{name}.png")

    async def has_no_barriers(self) -> None:
        """axe-core finds nothing serious. It is put in past the page's policy, which allows no scripts of others."""
        await self.page.evaluate(AXE.read_text() + "; undefined")
        found: dict[str, Any] = await self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        serious = [
            (each["id"], [node["html"][:160] for node in each["nodes"]])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert not serious, serious


async def opened(context: BrowserContext, url: str) -> Dashboard:
    """A tab at the first page; whatever breaks in it fails the test that asks."""
    dashboard = Dashboard(await context.new_page(), url.rstrip("/"))
    await dashboard.visit()
    return dashboard
