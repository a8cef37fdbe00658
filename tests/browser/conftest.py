"""A real browser: this machine's Chromium, driven by Playwright. And a CodeHub to visit."""

import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.browser.site import Site, running_site
from tests.support import missing

# Quiet, and able to run as root in a container.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_SLOWEST_MS = 30_000


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        missing("a browser", "apt install chromium fonts-noto-cjk libatomic1")
    expect.set_options(timeout=_SLOWEST_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
async def browser_context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """A browser that nobody has used: no cookies, no storage."""
    context = await chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(_SLOWEST_MS)
    yield context
    await context.close()


@pytest.fixture
async def page(browser_context: BrowserContext) -> Page:
    """An empty tab of it."""
    return await browser_context.new_page()


_SOON = {"ACTIVITY_FLUSH_INTERVAL": "1", "COORDINATOR_TTL_INTERVAL": "1"}  # activity shows within seconds


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with running_site(**_SOON) as site:
        yield site


@pytest.fixture(scope="session")
def path_site() -> Iterator[Site]:
    """Where no workspace has an origin of its own."""
    with running_site(**_SOON, CODEHUB_WORKSPACE_HOST="none") as site:
        yield site
