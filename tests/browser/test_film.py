"""A notebook's life as its owner sees it, in English and Korean: install, plot, archive, restore, plot again.

With `make screenshots` its pictures are those of docs/notebook.md.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.dashboard import SLOW_MS, Dashboard
from tests.browser.ides import JupyterLab
from tests.browser.site import OWN_ORIGINS, Site, running_site
from tests.lab import packages
from tests.lab.ides import installed

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(600)]  # packages come from the network

INSTALL = "%pip install --quiet numpy matplotlib"
PLOT = """import numpy as np, matplotlib.pyplot as plt
x = np.linspace(0, 6, 200)
plt.figure(figsize=(5, 2))
plt.plot(x, np.{}(x))
plt.show()"""
INSTALL_MS = 180_000


@dataclass(frozen=True)
class Words:
    """What is written where one has to click."""

    locale: str
    archive: str
    archived: str
    restore: str


LANGUAGES = {
    "en": Words("en-US", "Archive", "Archived", "Restore and open"),
    "ko": Words("ko-KR", "보관", "보관됨", "복원하고 열기"),
}


@dataclass(frozen=True)
class Notebook:
    """One in JupyterLab."""

    page: Page

    async def begin(self) -> None:
        card = self.page.locator(".jp-LauncherCard[data-category='Notebook']", has_text="ipykernel")
        await card.first.click()
        await self.has_cells(1)

    @property
    def cells(self) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell")

    async def has_cells(self, count: int) -> None:
        await expect(self.cells).to_have_count(count, timeout=SLOW_MS)

    async def run(self, number: int, code: str) -> Locator:
        """The cell, once it was run: it has a number."""
        cell = self.cells.nth(number)
        await cell.locator(".cm-content").click()
        await self.page.keyboard.insert_text(code)
        await expect(cell.locator(".cm-content")).to_contain_text(code.splitlines()[0])
        await self._press(cell)
        await expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]"), timeout=INSTALL_MS)
        return cell

    async def _press(self, cell: Locator) -> None:
        """JupyterLab forgets what is to be run before its kernel is connected."""
        for left in (5, 4, 3, 2, 1, 0):
            await cell.locator(".cm-content").click()
            await self.page.keyboard.press("Shift+Enter")
            try:
                await expect(cell.locator(".jp-InputPrompt")).not_to_have_text("[ ]:", timeout=10_000)
            except AssertionError:
                if not left:
                    raise
            else:
                return

    async def plot(self, number: int, function: str) -> None:
        cell = await self.run(number, PLOT.format(function))
        await expect(cell.locator(".jp-OutputArea img")).to_be_visible(timeout=SLOW_MS)
        await cell.evaluate("each => each.scrollIntoView({block: 'center'})")  # its number and all of its code

    async def save(self) -> None:
        """For the first time, when it asks for a name."""
        await self.page.keyboard.press("Control+s")
        await self.page.locator(".jp-Dialog .jp-mod-accept").click()
        await expect(self.page.locator(".jp-mod-dirty")).to_have_count(0)


@dataclass(frozen=True)
class Film:
    """The two tabs that are seen."""

    site: Site
    words: Words
    language: str
    workspace: UUID
    dashboard: Dashboard
    ide: Dashboard  # of which only pictures are taken

    async def picture(self, name: str, of: Dashboard) -> None:
        await of.picture(f"notebook-{name}-{self.language}")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Whose workspaces reach this machine's packages."""
    with running_site(PROCESS_ALLOW=packages.networks()) as site:
        yield site


@pytest.fixture(params=list(LANGUAGES))
async def film(request: pytest.FixtureRequest, chromium: Browser, site: Site) -> AsyncIterator[Film]:
    installed("jupyterlab")
    words = LANGUAGES[request.param]
    context: BrowserContext = await chromium.new_context(
        viewport={"width": 1000, "height": 640}, locale=words.locale, reduced_motion="reduce"
    )
    context.set_default_timeout(SLOW_MS)
    await site.log_in(context, OWN_ORIGINS)
    made = site.admin.create_workspace("waves", image_ref="jupyterlab")
    await site.becomes(made.id, "RUNNING")
    url = site.url(OWN_ORIGINS)
    tabs = [Dashboard(await context.new_page(), url) for _ in range(2)]
    yield Film(site, words, request.param, made.id, *tabs)
    await context.close()
    site.admin.delete_workspace(made.id, purge=True, confirm=True)


async def test_what_was_installed_plots_after_an_archive(film: Film) -> None:
    page, notebook = film.ide.page, Notebook(film.ide.page)
    await film.ide.visit(f"/w/{film.workspace}/")
    await JupyterLab(page).is_shown()
    await notebook.begin()
    await notebook.run(0, INSTALL)
    await film.picture("1-install", film.ide)
    await notebook.plot(1, "sin")
    await film.picture("2-plot", film.ide)
    await notebook.save()

    await film.dashboard.visit(f"/workspaces/{film.workspace}")
    await film.dashboard.button(film.words.archive).click()
    await film.dashboard.sees_state(film.words.archived)
    await film.picture("3-archived", film.dashboard)

    await film.ide.visit(f"/w/{film.workspace}/")
    await expect(page.get_by_role("button", name=film.words.restore)).to_be_visible()
    await film.picture("4-restore", film.ide)
    await page.get_by_role("button", name=film.words.restore).click()
    await JupyterLab(page).is_shown()
    await notebook.has_cells(3)
    await notebook.plot(2, "cos")
    await film.picture("5-plot-again", film.ide)
