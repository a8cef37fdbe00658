"""What a page inside a workspace can do to CodeHub and to other workspaces from an origin of its own: nothing.

The page is the tiny workspace's, which has no policy of its own that could hold a script back; its visitor is logged in
as an administrator, with another workspace open in another tab of the same browser. Each thing that must not be reached
is first seen to be reachable from where it may be.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from playwright.async_api import BrowserContext, Page

from tests.browser.site import OWN_ORIGINS, Site
from tests.support import eventually_async

pytestmark = pytest.mark.exhaustive


@dataclass
class Trap:
    """A page that a visitor was lured to, and what it may be after."""

    site: Site
    page: Page
    workspace: UUID
    other: UUID
    other_page: Page

    @property
    def main(self) -> str:
        return self.site.url(OWN_ORIGINS)

    @property
    def other_origin(self) -> str:
        return self.site.url(f"{self.other}.{OWN_ORIGINS}")

    async def fetched(self, url: str, **options: object) -> str:
        """What a script there gets to see of an answer."""
        script = """async ([url, options]) => {
            try {
                const answer = await fetch(url, {signal: AbortSignal.timeout(10000), ...options});
                return `${answer.type} ${answer.status} ${await answer.text()}`;
            } catch (error) { return `refused: ${error.name}`; }
        }"""
        return str(await self.page.evaluate(script, [url, options]))

    async def is_logged_in(self) -> bool:
        """Asked by CodeHub's own page in the same browser."""
        page = await self.page.context.new_page()
        await page.goto(f"{self.main}/api/v1/session")
        text = await page.inner_text("body")
        await page.close()
        return '"admin"' in text


@pytest.fixture(scope="module")
async def workspaces(site: Site) -> AsyncIterator[tuple[UUID, UUID]]:
    both = await site.workspace("test"), await site.workspace("test")
    (site.home(both[1]) / "secret").write_text("the other's secret")
    yield both
    for workspace in both:
        site.admin.delete_workspace(workspace, purge=True, confirm=True)


@pytest.fixture
async def trap(site: Site, workspaces: tuple[UUID, UUID], browser_context: BrowserContext) -> Trap:
    await site.log_in(browser_context, OWN_ORIGINS)
    pages = []
    for workspace in workspaces:
        page = await browser_context.new_page()
        await page.goto(f"{site.url(OWN_ORIGINS)}/w/{workspace}/")
        await page.wait_for_url(f"{site.url(f'{workspace}.{OWN_ORIGINS}')}/**")
        assert str(workspace) in await page.inner_text("h1")
        pages.append(page)
    trap = Trap(site, pages[0], *workspaces, pages[1])
    assert "the other's secret" in await pages[1].evaluate("fetch('/files/secret').then(answer => answer.text())")
    assert await trap.is_logged_in()
    return trap


@pytest.mark.parametrize("credentials", ["include", "omit", "same-origin"])
@pytest.mark.parametrize("mode", ["cors", "no-cors"])
async def test_fetch_sees_nothing(trap: Trap, mode: str, credentials: str) -> None:
    targets = [f"{trap.main}/api/v1/session", f"{trap.main}/api/v1/workspaces", f"{trap.main}/w/{trap.other}/"]
    targets += [f"{trap.main}/", f"{trap.main}/metrics", f"{trap.other_origin}/files/secret", f"{trap.other_origin}/"]
    for target in targets:
        seen = await trap.fetched(target, mode=mode, credentials=credentials)
        assert seen.startswith("refused") or seen == "opaque 0 ", (target, seen)


async def test_its_own_origin_has_no_api(trap: Trap) -> None:
    """Its cookie opens the workspace, and nothing of CodeHub answers there."""
    for path in ("/api/v1/session", "/api/v1/workspaces", "/metrics", f"/w/{trap.other}/files/secret"):
        seen = await trap.fetched(path, credentials="include")
        assert '"admin"' not in seen
        assert "the other's secret" not in seen
        assert seen.startswith("basic 404 "), (path, seen)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json"])
async def test_fetch_changes_nothing(trap: Trap, kind: str) -> None:
    before = {workspace.id for workspace in trap.site.admin.workspaces()}
    body = '{"name": "planted", "image_ref": "test"}'
    for path in ("/api/v1/workspaces", "/api/v1/logout", "/api/v1/logout?everywhere=true", "/api/v1/tokens"):
        for mode in ("no-cors", "cors"):
            headers = {"Content-Type": kind}
            options = {"method": "POST", "mode": mode, "credentials": "include", "headers": headers, "body": body}
            seen = await trap.fetched(trap.main + path, **options)
            assert seen.startswith("refused") or seen == "opaque 0 ", seen
    await trap.fetched(f"{trap.main}/api/v1/workspaces/{trap.other}", method="DELETE", credentials="include")
    await trap.fetched(
        f"{trap.other_origin}/files/planted", method="POST", mode="no-cors", credentials="include", body="x"
    )
    assert await trap.is_logged_in()
    assert {workspace.id for workspace in trap.site.admin.workspaces()} == before
    assert not (trap.site.home(trap.other) / "planted").exists()


async def test_websockets_do_not_open(trap: Trap) -> None:
    script = """url => new Promise(done => {
        const socket = new WebSocket(url);
        socket.onopen = () => { socket.send("hello"); };
        socket.onmessage = message => done(`open: ${message.data}`);
        socket.onclose = event => done(`closed: ${event.code}`);
        setTimeout(() => done("silence"), 10000);
    })"""
    own = trap.page.url.replace("http", "ws").rstrip("/")
    assert await trap.page.evaluate(script, f"{own}/echo") == "open: hello"
    for origin in (trap.other_origin, f"{trap.main}/w/{trap.other}", f"{trap.main}/w/{trap.workspace}"):
        seen = await trap.page.evaluate(script, origin.replace("http", "ws") + "/echo")
        assert seen.startswith("closed"), (origin, seen)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_forms_change_nothing(trap: Trap, kind: str) -> None:
    """A form takes the whole tab along, as a person's click would."""
    before = {workspace.id for workspace in trap.site.admin.workspaces()}
    start = trap.page.url
    for path in ("/api/v1/logout", "/api/v1/logout?everywhere=true", "/api/v1/workspaces", f"/w/{trap.other}/run"):
        await trap.page.goto(start)
        script = """([action, kind]) => {
            const form = document.createElement("form");
            Object.assign(form, {action, method: "post", enctype: kind});
            const field = document.createElement("input");
            Object.assign(field, {name: '{"name": "planted", "image_ref": "test", "x": "', value: '"}'});
            form.append(field);
            document.body.append(form);
            form.submit();
        }"""
        async with trap.page.expect_navigation():
            await trap.page.evaluate(script, [trap.main + path, kind])
    await trap.page.goto(start)
    assert await trap.is_logged_in()
    assert {workspace.id for workspace in trap.site.admin.workspaces()} == before


async def test_frames_show_nothing(trap: Trap) -> None:
    script = """async urls => {
        for (const url of urls) {
            const frame = document.createElement("iframe");
            frame.src = url;
            document.body.append(frame);
            await new Promise(done => { frame.onload = done; setTimeout(done, 5000); });
        }
        return Array.from(window.frames, frame => {
            try { return frame.document.body.innerText; } catch (error) { return error.name; }
        });
    }"""
    targets = [f"{trap.main}/", f"{trap.main}/w/{trap.other}/", f"{trap.other_origin}/", f"{trap.main}/api/v1/session"]
    seen = await trap.page.evaluate(script, targets)
    assert seen == ["SecurityError"] * len(targets)
    shown = [await frame.content() for frame in trap.page.frames[1:]]
    for text in shown:  # nor does a person see anything there to be tricked into clicking on
        assert "codehub" not in text.lower(), text
        assert f"workspace {trap.other}" not in text, text
        assert '"admin"' not in text, text


async def test_popups_are_out_of_reach(trap: Trap) -> None:
    async with trap.page.context.expect_page() as opened:
        await trap.page.evaluate("url => { window.popup = window.open(url); }", f"{trap.main}/")
    await (await opened.value).wait_for_load_state()
    script = """() => {
        try { return window.popup.document.body.innerText; } catch (error) { return error.name; }
    }"""
    assert await trap.page.evaluate(script) in ("SecurityError", "TypeError")


async def test_cookies_cannot_be_planted_or_read(trap: Trap) -> None:
    before = {(cookie["name"], cookie["domain"], cookie["value"]) for cookie in await trap.page.context.cookies()}
    script = """names => {
        for (const name of names)
            for (const domain of ["", "; Domain=localhost", "; Domain=.localhost"])
                for (const path of ["/", "/api", "/w"])
                    document.cookie = `${name}=planted; Path=${path}${domain}`;
        return document.cookie;
    }"""
    names = sorted({name for name, _, _ in before} | {"codehub_session", "__Host-codehub_session", "other"})
    seen = await trap.page.evaluate(script, names)
    for name, _, value in before:
        assert value not in seen, name
    assert await trap.is_logged_in()
    main = await trap.page.context.cookies(trap.main)
    assert "planted" not in {cookie["value"] for cookie in main}
    other = await trap.page.context.cookies(trap.other_origin)
    assert "planted" not in {cookie["value"] for cookie in other}
    assert "the other's secret" in await trap.other_page.evaluate(
        "fetch('/files/secret').then(answer => answer.text())"
    )


async def test_a_service_worker_stays_at_home(trap: Trap) -> None:
    """It takes over its own origin, which is the workspace's to do, and no other."""
    worker = "self.onfetch = event => event.respondWith(new Response('taken over', {headers: {'X-Taken': '1'}}));"
    (trap.site.home(trap.workspace) / "worker.js").write_text(worker)
    script = """async ([url, scope]) => {
        try {
            await navigator.serviceWorker.register(url, {scope});
            return "registered";
        } catch (error) { return error.name; }
    }"""
    for url, scope in (
        (f"{trap.main}/w/{trap.workspace}/files/worker.js", f"{trap.main}/"),
        ("/files/worker.js", f"{trap.main}/"),
        ("/files/worker.js", f"{trap.other_origin}/"),
        (f"{trap.other_origin}/files/worker.js", "/"),
    ):
        assert await trap.page.evaluate(script, [url, scope]) in ("SecurityError", "TypeError")
    await trap.page.evaluate(script, ["/files/worker.js", "/files/"])

    async def others_are_as_before() -> bool:
        text = await trap.other_page.evaluate("fetch('/files/secret').then(answer => answer.text())")
        return bool(text == "the other's secret")

    await eventually_async(others_are_as_before, "the other workspace answers itself")
    assert await trap.is_logged_in()
