"""A hostile page in path mode, in a real browser: it is of CodeHub's own origin, and does not leave its path."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from playwright.async_api import BrowserContext, Page

from tests.browser.site import PATH_MODE, Site


@pytest.fixture
async def workspace(path_site: Site) -> UUID:
    return await path_site.workspace("test")


@pytest.fixture
async def hostile(path_site: Site, workspace: UUID, browser_context: BrowserContext, page: Page) -> AsyncIterator[Page]:
    """A page of a workspace, and whatever script it likes."""
    await path_site.log_in(browser_context, PATH_MODE)
    answer = await page.goto(f"{path_site.url(PATH_MODE)}/w/{workspace}/")
    assert answer is not None
    assert "sandbox" in answer.headers["content-security-policy"]
    yield page
    path_site.admin.delete_workspace(workspace, purge=True, confirm=True)


ATTEMPTS = {
    "a request to the API": "fetch('/api/v1/session').then(() => 'through', () => 'blocked')",
    "a new administrator": """fetch('/api/v1/users', {method: 'POST', headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({username: 'evil', role: 'admin'})}).then(() => 'through', () => 'blocked')""",
    "another workspace": "fetch('/w/00000000-0000-0000-0000-000000000001/').then(() => 'through', () => 'blocked')",
    "a way round its path": "fetch(location.pathname + '../../api/v1/session').then(() => 'through', () => 'blocked')",
    "an older kind of request": """new Promise(done => { const ask = new XMLHttpRequest();
        ask.onload = () => done('through'); ask.onerror = () => done('blocked');
        ask.open('GET', '/api/v1/session'); ask.send(); })""",
    "a socket": """new Promise(done => { const socket = new WebSocket('ws://' + location.host + '/api/v1/events');
        document.addEventListener('securitypolicyviolation', () => done('blocked'));
        socket.onopen = () => done('through'); })""",
    "a form": """new Promise(done => { const form = document.createElement('form');
        document.addEventListener('securitypolicyviolation', () => done('blocked'));
        form.method = 'post'; form.action = '/api/v1/logout'; document.body.append(form); form.submit(); })""",
    "a window": "Promise.resolve(window.open('/') === null ? 'blocked' : 'through')",
    "a frame": """new Promise(done => { const frame = document.createElement('iframe');
        document.addEventListener('securitypolicyviolation', () => done('blocked'));
        frame.src = '/w/00000000-0000-0000-0000-000000000001/'; document.body.append(frame); })""",
    "a frame without an address": """new Promise(done => { const frame = document.createElement('iframe');
        document.body.append(frame);
        frame.contentWindow.fetch(location.origin + '/api/v1/session').then(
            () => done('through'), () => done('blocked')); })""",
    "a button's redirect": """fetch(location.pathname + '.codehub/start?next=/api/v1/session', {method: 'POST'})
        .then(answer => new URL(answer.url).pathname.startsWith('/w/') ? 'blocked' : 'through', () => 'blocked')""",
    "a worker": """new Promise(done => { const text = `fetch('${location.origin}/api/v1/session').then(
            () => postMessage('through'), () => postMessage('blocked'))`;
        const worker = new Worker(URL.createObjectURL(new Blob([text])));
        worker.onmessage = event => done(event.data); worker.onerror = () => done('blocked'); })""",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_it_does_not_leave_its_path(hostile: Page, attempt: str) -> None:
    assert await hostile.evaluate(ATTEMPTS[attempt]) == "blocked"


async def test_below_its_path_it_may(hostile: Page) -> None:
    assert await hostile.evaluate("fetch(location.pathname).then(answer => answer.status)") == 200
