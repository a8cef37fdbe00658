"""Real IDEs in a real browser, through the proxy: below /w/{id}/ of one origin, and on origins of their own."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import pytest
from playwright.async_api import BrowserContext, Error, Page, Request, Response, WebSocket

from tests.browser.ides import IDES, Ide
from tests.browser.site import OWN_ORIGINS, PATH_MODE, Site
from tests.lab.ides import installed
from tests.support import eventually_async

SILENCE_SECONDS = 25.0

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(600)]  # a cold IDE on a busy machine


@dataclass
class Visit:
    """A workspace that is open in a tab."""

    site: Site
    host: str
    workspace: UUID
    page: Page
    ide: Ide

    @property
    def address(self) -> str:
        return f"{self.site.url(self.host)}/w/{self.workspace}/"

    async def load(self, go: Callable[[], Awaitable[object]]) -> None:
        """Waits until the IDE is shown; once more where Chromium gave requests up because a network came or went."""
        while True:
            given_up: list[str] = []

            def note(request: Request, given_up: list[str] = given_up) -> None:
                given_up.extend([request.url] if request.failure == "net::ERR_NETWORK_CHANGED" else [])

            self.page.on("requestfailed", note)
            try:
                await go()
                await self.ide.is_shown()
            except (AssertionError, Error):
                if not given_up:
                    raise
            finally:
                self.page.remove_listener("requestfailed", note)
            if not given_up:
                return

    @property
    def last_access(self) -> datetime | None:
        return self.site.admin.workspace(self.workspace).last_access_at

    async def has(self, file: str, text: str) -> None:
        """Waits until it is in the home."""
        path = self.site.home(self.workspace) / file

        async def holds() -> bool:
            return path.exists() and path.read_text().strip() == text

        await eventually_async(holds, f"{file} holds {text!r}", 30)

    async def is_backed_up(self, text: str) -> None:
        """Waits until VS Code has put what is not saved where it will find it again."""
        backups = self.site.home(self.workspace) / ".local/share/code-server/User/Backups"

        async def holds() -> bool:
            return any(text in path.read_text() for path in backups.rglob("*") if path.is_file())

        await eventually_async(holds, "a backup", 30)

    async def stop(self) -> None:
        self.site.admin.set_state(self.workspace, "STANDBY")
        await self.site.becomes(self.workspace, "STANDBY")


@pytest.fixture(params=[PATH_MODE, OWN_ORIGINS])
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(IDES))
async def visit(
    request: pytest.FixtureRequest, host: str, browser_context: BrowserContext, page: Page
) -> AsyncIterator[Visit]:
    name = str(request.param)
    site: Site = request.getfixturevalue("path_site" if host == PATH_MODE else "site")
    installed(name)
    await site.log_in(browser_context, host)
    workspace = await site.workspace(name)
    visit = Visit(site, host, workspace, page, IDES[name](page))
    await visit.load(lambda: page.goto(visit.address))
    yield visit
    site.admin.delete_workspace(workspace, purge=True, confirm=True)


async def test_work_is_kept_over_a_stop_a_forgotten_tab_wakes_nothing_and_a_visit_does(visit: Visit) -> None:
    own_origin = f"{visit.workspace}.{visit.host}" in visit.page.url
    assert own_origin is (visit.host == OWN_ORIGINS), visit.page.url
    await visit.ide.run("echo made here > in-terminal; touch notes.txt")
    await visit.has("in-terminal", "made here")
    await visit.ide.edit("notes.txt", "typed here")
    await visit.ide.save()
    await visit.has("notes.txt", "typed here")
    if visit.ide.keeps_unsaved:
        await visit.ide.scribble("never saved")
        await visit.is_backed_up("never saved")
    refused = refusals_of(visit.page)
    await visit.stop()
    before = len(refused)

    async def was_refused() -> bool:
        return len(refused) >= before + 3

    # The tab goes on asking for its connection, and is told each time that nobody is there.
    await eventually_async(was_refused, "the tab asks, and is refused", 120)
    seen = visit.site.admin.workspace(visit.workspace)
    assert (seen.desired_state, seen.phase) == ("STANDBY", "STANDBY"), refused
    await visit.load(visit.page.reload)
    await visit.site.becomes(visit.workspace, "RUNNING")
    await visit.ide.shows("never saved" if visit.ide.keeps_unsaved else "typed here")
    await visit.has("notes.txt", "typed here")


def refusals_of(page: Page) -> list[str]:
    """Grows while a tab asks in vain."""
    refused: list[str] = []

    def on_response(response: Response) -> None:
        if response.status == 503:
            refused.append(response.url)

    def on_websocket(socket: WebSocket) -> None:
        socket.on("socketerror", lambda error: refused.append(str(error)))

    page.on("response", on_response)
    page.on("websocket", on_websocket)
    return refused


@pytest.mark.parametrize("host", [OWN_ORIGINS], indirect=True)
async def test_an_open_tab_is_no_activity_and_typing_is(visit: Visit) -> None:
    await visit.ide.run("echo made here > in-terminal")
    await visit.has("in-terminal", "made here")
    noted, since = visit.last_access, time.monotonic()

    async def is_silent() -> bool:
        """Although it talks all the time: keep-alives of VS Code, questions of JupyterLab."""
        nonlocal noted, since
        if visit.last_access != noted:
            noted, since = visit.last_access, time.monotonic()
        return time.monotonic() - since > SILENCE_SECONDS

    # A new IDE has this and that to do before it is still.
    await eventually_async(is_silent, f"no activity for {SILENCE_SECONDS} s", 180)
    await visit.ide.run("true")

    async def is_noticed() -> bool:
        return visit.last_access != noted

    await eventually_async(is_noticed, "typing counts", 15)
