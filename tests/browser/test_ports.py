"""A port inside a workspace, in a browser: {port}--{id}.host, for its owner and nobody else."""

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from tests.browser.site import OWN_ORIGINS, Site
from tests.support import eventually

pytestmark = pytest.mark.exhaustive

PORT = 5000


async def test_what_listens_inside_is_seen_by_its_owner_alone(
    site: Site, browser_context: BrowserContext, page: Page, chromium: Browser
) -> None:
    workspace = await site.workspace("test")
    await site.log_in(browser_context, OWN_ORIGINS)
    await page.goto(f"{site.url(OWN_ORIGINS)}/w/{workspace}/")
    await page.wait_for_url(f"{site.url(f'{workspace}.{OWN_ORIGINS}')}/**")
    (site.home(workspace) / "shown").mkdir()
    (site.home(workspace) / "shown/index.html").write_text("<h1>listens inside</h1>")
    server = f"setsid python3 -m http.server {PORT} --bind 127.0.0.1 --directory shown > /dev/null 2>&1 &"
    script = "command => fetch('/run', {method: 'POST', body: command}).then(answer => answer.json())"
    await page.evaluate(script, server)
    listens = f"bash -c 'until echo > /dev/tcp/127.0.0.1/{PORT}; do sleep 0.1; done' 2> /dev/null"
    assert (await page.evaluate(script, listens))["code"] == 0
    address = f"{site.url(f'{PORT}--{workspace}.{OWN_ORIGINS}')}/"
    await page.goto(address)
    assert await page.inner_text("h1") == "listens inside"
    assert page.url == address
    await page.goto(f"{site.url(f'{PORT + 1}--{workspace}.{OWN_ORIGINS}')}/")
    assert "listens inside" not in await page.content()
    stranger = await chromium.new_context()
    strangers = await stranger.new_page()
    await strangers.goto(address)
    assert "listens inside" not in await strangers.content()
    await stranger.close()
    site.admin.delete_workspace(workspace, purge=True, confirm=True)
    eventually(lambda: not (site.codehub.data / f"workspaces/homes/ws-{workspace}-home").exists(), "it is gone", 60)
