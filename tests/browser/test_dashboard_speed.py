"""Two thousand workspaces: the page is ready soon, scrolls without jank, and an update touches one row.

Limits are for a busy machine; what a quiet one does is in docs/quickstart.md.
"""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from playwright.async_api import BrowserContext, expect

from codehub.config import Settings
from codehub.db.pool import Role, open_pool
from codehub.signals.connect import open_redis
from tests.accounts.people import add_person, set_password
from tests.api.served import served
from tests.browser.dashboard import SLOW_MS, Dashboard, opened
from tests.support import Databases

pytestmark = pytest.mark.exhaustive

PASSWORD = "correct horse battery"
MANY = 2000

_ROWS = """
INSERT INTO workspaces (id, owner_user_id, instance_backend, storage_backend, home_store_key, name, image_ref, phase,
                        desired_state, standby_ttl_seconds, archive_ttl_seconds, archive_key)
SELECT id, %s, 'process', 'directory', 'ws-' || id || '-home', 'workspace ' || number, 'ide',
       state::workspace_state, state::workspace_state, 600, 1800, 'k'
FROM (SELECT gen_random_uuid() AS id, number, (ARRAY['STANDBY', 'ARCHIVED'])[number %% 2 + 1] AS state
      FROM generate_series(1, %s) AS number) AS made
"""
# Scrolls in steps of half a screen, a frame each; before that, as many frames without scrolling, which is what this
# machine takes for a frame at this moment.
_SCROLL = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const measure = async (step) => {
    const times = [];
    for (let number = 0; number < 120; number++) {
      const began = performance.now();
      if (step) scrollTo(0, number * step);
      await frame();
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    return { usual: times[60], p95: times[114] };
  };
  return { resting: await measure(0), scrolling: await measure(innerHeight / 2) };
}"""
# Counts which rows the page changes from now on.
_WATCH = """() => {
  window.touched = new Set();
  new MutationObserver((changes) => {
    for (const change of changes) {
      const row = (change.target.nodeType === 1 ? change.target : change.target.parentElement)?.closest('.row');
      window.touched.add(row ? row.dataset.workspace : change.target.className || change.target.nodeName);
    }
  }).observe(document.querySelector('.rows'),
             { subtree: true, childList: true, characterData: true, attributes: true });
}"""


@pytest.fixture(scope="module")
def database(databases: Databases, migrated_template: str) -> Iterator[str]:
    with databases.one(migrated_template) as url:
        asyncio.run(_populate(url))
        yield url


async def _populate(url: str) -> None:
    async with (
        open_pool(url, Role.API) as pool,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as conn,
    ):
        ada = await add_person(pool)
        await set_password(pool, ada, PASSWORD)
        await conn.execute(_ROWS, [ada.id, MANY])


@pytest.fixture(scope="module")
def url(database: str, server_redis: str) -> Iterator[str]:
    with served(database, server_redis) as url:
        yield url


async def _logged_in(context: BrowserContext, url: str) -> Dashboard:
    dashboard = await opened(context, url)
    await dashboard.log_in("ada", PASSWORD)
    await expect(dashboard.page.locator(".chip").first).to_contain_text(str(MANY), timeout=SLOW_MS)
    return dashboard


async def test_the_page_is_ready_soon(url: str, browser_context: BrowserContext) -> None:
    dashboard = await _logged_in(browser_context, url)
    ready: list[float] = []
    for _ in range(5):
        await dashboard.page.reload(wait_until="commit")
        await dashboard.page.locator(".row").first.wait_for()
        ready.append(await dashboard.page.evaluate("performance.now()"))
    print(f"first row after {sorted(ready)} ms")  # noqa: T201 - for docs/quickstart.md
    assert min(ready) < 2000


async def test_scrolling_two_thousand_has_no_jank(url: str, browser_context: BrowserContext) -> None:
    dashboard = await _logged_in(browser_context, url)
    assert await dashboard.page.locator(".row").count() < 60, "only what is seen is in the page"
    found: list[dict[str, Any]] = [await dashboard.page.evaluate(_SCROLL) for _ in range(3)]
    print(f"frames: {found} ms")  # noqa: T201 - for docs/quickstart.md
    # The best of three: others need the processors, too, and a page that has jank has it each time.
    assert min(each["scrolling"]["usual"] - each["resting"]["usual"] for each in found) < 50
    await dashboard.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    await expect(dashboard.page.locator(".row").last).to_be_in_viewport()


async def test_an_update_touches_one_row(
    url: str, database: str, server_redis: str, browser_context: BrowserContext
) -> None:
    dashboard = await _logged_in(browser_context, url)
    await dashboard.page.locator("select").nth(1).select_option("name")
    first = dashboard.page.locator(".row").first
    await expect(first).to_contain_text("workspace 1")
    identity = await first.get_attribute("data-workspace")
    assert identity is not None
    await dashboard.page.evaluate(_WATCH)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        await conn.execute("UPDATE workspaces SET description = 'it has news' WHERE id = %s", [UUID(identity)])
    async with open_redis(server_redis) as redis:  # in the leader's place
        await redis.publish(f"{Settings.load().redis_channels.sse_prefix}all", '{"gap": true}')
    await expect(first).to_contain_text("it has news", timeout=SLOW_MS)
    assert await dashboard.page.evaluate("[...window.touched]") == [identity]


async def test_a_search_among_many_is_quick(url: str, browser_context: BrowserContext) -> None:
    dashboard = await _logged_in(browser_context, url)
    await dashboard.page.get_by_label("Search by name").fill("workspace 1999")
    await expect(dashboard.page.locator(".row")).to_have_count(1)
    await expect(dashboard.row("workspace 1999")).to_be_visible()
