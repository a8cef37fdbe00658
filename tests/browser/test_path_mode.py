"""A hostile page in path mode, in a real browser: it is of CodeHub's own origin, and does not leave its path."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from playwright.async_api import BrowserContext, Page

from codehub.web import dashboard
from tests.browser.site import PATH_MODE, Site


@pytest.fixture
async def workspace(path_site: Site) -> UUID:
    return await path_site.workspace("test")


# A service worker answers with what it likes, for example with pages and workers that no policy was added to.
SERVICE_WORKER = """
const made = (text, type) => new Response(text, {headers: {'Content-Type': type}});
const acting = "fetch('/api/v1/session').then(() => 'through', () => 'blocked').then(said => postMessage(said))";
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', event => event.waitUntil(self.clients.claim()));
self.addEventListener('fetch', event => {
    if (event.request.url.endsWith('/made.html')) event.respondWith(made('<p>made</p>', 'text/html'));
    if (event.request.url.endsWith('/made.js')) event.respondWith(made(acting, 'text/javascript'));
});
"""
FILES = {
    "worker.js": SERVICE_WORKER,
    "page.html": "<!doctype html><p>controlled",
    "script.js": "document.title = 'loaded'",
    "act.js": "fetch('/api/v1/session').then(() => postMessage('through'), () => postMessage('blocked'))",
    "module.js": "export default 'loaded'",
    "data.json": '"loaded"',
}


@pytest.fixture
async def hostile(path_site: Site, workspace: UUID, browser_context: BrowserContext, page: Page) -> AsyncIterator[Page]:
    """A page of a workspace, and whatever script it likes."""
    for name, text in FILES.items():
        (path_site.home(workspace) / name).write_text(text)
    await path_site.log_in(browser_context, PATH_MODE)
    answer = await page.goto(f"{path_site.url(PATH_MODE)}/w/{workspace}/")
    assert answer is not None
    assert "sandbox" in answer.headers["content-security-policy"]
    yield page
    path_site.admin.delete_workspace(workspace, purge=True, confirm=True)


# A frame that a service worker answers for.
CONTROLLED = """navigator.serviceWorker.register(location.pathname + 'files/worker.js').then(
    () => navigator.serviceWorker.getRegistration(location.pathname + 'files/')).then(known => new Promise(done => {
        const here = setInterval(() => known.active && (clearInterval(here), done()), 20); })).then(
    () => new Promise(done => { const frame = document.createElement('iframe'); frame.onload = () => done(frame);
        frame.src = location.pathname + 'files/page.html'; document.body.append(frame); }))"""
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
    "a worker of its own path": """new Promise(done => { const worker = new Worker(location.pathname + 'files/act.js');
        worker.onmessage = event => done(event.data); worker.onerror = () => done('blocked'); })""",
    "a service worker": """navigator.serviceWorker.register(location.pathname + 'files/worker.js')
        .then(() => 'through', () => 'blocked')""",
    "a service worker that is a module": """navigator.serviceWorker
        .register(location.pathname + 'files/worker.js', {type: 'module'}).then(() => 'through', () => 'blocked')""",
    "a page of a service worker": f"""{CONTROLLED}.then(frame => new Promise(done => {{
        frame.onload = () => frame.contentWindow.fetch('/api/v1/session').then(() => done('through'),
            () => done('blocked'));
        frame.src = location.pathname + 'files/made.html'; }}), () => 'blocked')""",
    "a worker of a service worker": f"""{CONTROLLED}.then(frame => new Promise(done => {{
        const worker = new frame.contentWindow.Worker('made.js');
        worker.onmessage = event => done(event.data); worker.onerror = () => done('blocked'); }}), () => 'blocked')""",
    "an entrance's redirect": """fetch(location.pathname + '.codehub/enter?for=' + 'a'.repeat(64)
        + '&path=/../../api/v1/session').then(answer =>
            new URL(answer.url).pathname.startsWith('/api/') ? 'through' : 'blocked',
            () => 'blocked')""",
    "a picture that wakes another workspace": """new Promise(done => { const image = new Image();
        document.addEventListener('securitypolicyviolation', () => done('blocked'));
        image.onerror = () => setTimeout(() => done('through'), 500);
        image.src = '/w/00000000-0000-0000-0000-000000000001/.codehub/progress'; })""",
    "a picture that is read": """fetch(location.pathname).then(() => new Promise(done => {
        const image = new Image();
        image.onload = () => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 9;
            const drawn = canvas.getContext('2d'); drawn.drawImage(image, 0, 0, 9, 9);
            drawn.getImageData(0, 0, 9, 9); done('through'); };
        image.onerror = () => done('blocked'); image.src = 'ICON'; }))""",
    "a script": """new Promise(done => { const script = document.createElement('script');
        script.onload = () => done('through'); script.onerror = () => done('blocked');
        script.src = '/.codehub/visit.js'; document.head.append(script); })""",
    "a module": "import('SCRIPT').then(() => 'through', () => 'blocked')",
    "data as a module": """import('/api/v1/session', {with: {type: 'json'}}).then(
        () => 'through', () => 'blocked')""",
    "a style": """new Promise(done => { const link = document.createElement('link'); link.rel = 'stylesheet';
        link.onload = () => done('through'); link.onerror = () => done('blocked');
        link.href = '/.codehub/visit.css'; document.head.append(link); })""",
    "something before its time": """new Promise(done => { const link = document.createElement('link');
        link.rel = 'preload'; link.as = 'fetch'; link.href = '/.codehub/visit.css';
        link.onload = () => done('through'); link.onerror = () => done('blocked'); document.head.append(link); })""",
    "a film": """new Promise(done => { const film = document.createElement('video');
        document.addEventListener('securitypolicyviolation', () => done('blocked'));
        film.onerror = () => setTimeout(() => done('through'), 500); film.src = '/api/v1/session'; })""",
    "a font": """new Promise(done => { document.addEventListener('securitypolicyviolation', () => done('blocked'));
        new FontFace('evil', 'url(/api/v1/session)').load().catch(() => setTimeout(() => done('through'), 500)); })""",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_it_does_not_leave_its_path(hostile: Page, attempt: str) -> None:
    script = ATTEMPTS[attempt].replace("ICON", asset("icon-*.svg")).replace("SCRIPT", asset("toasts-*.js"))
    assert await hostile.evaluate(script) == "blocked"


def asset(pattern: str) -> str:
    """A file of the dashboard, which anybody may read."""
    return f"/assets/{next(Path(dashboard.__file__).parent.glob(f'built/assets/{pattern}')).name}"


IN_PLACE = {
    "fetch": "fetch(location.pathname).then(answer => answer.status === 200 ? 'loaded' : answer.status)",
    "a script": """new Promise(done => { const script = document.createElement('script');
        script.onload = () => done(document.title); script.onerror = () => done('blocked');
        script.src = location.pathname + 'files/script.js'; document.head.append(script); })""",
    "a module": "import(location.pathname + 'files/module.js').then(found => found.default)",
    "data as a module": """import(location.pathname + 'files/data.json', {with: {type: 'json'}}).then(
        found => found.default)""",
    "a frame": """new Promise(done => { const frame = document.createElement('iframe');
        frame.onload = () => done(frame.contentDocument.body ? 'loaded' : 'blocked');
        frame.src = location.pathname + 'files/page.html'; document.body.append(frame); })""",
    "a worker of its own text": """new Promise(done => { const worker = new Worker(
            URL.createObjectURL(new Blob(["postMessage('loaded')"])));
        worker.onmessage = event => done(event.data); })""",
}


@pytest.mark.parametrize("use", IN_PLACE)
async def test_below_its_path_it_may(hostile: Page, use: str) -> None:
    assert await hostile.evaluate(IN_PLACE[use]) == "loaded"


async def test_a_cookie_that_it_plants_locks_nobody_out(hostile: Page, path_site: Site) -> None:
    asked = "fetch('/api/v1/session').then(answer => answer.status)"
    await hostile.evaluate(
        "['/', '/api', '/api/v1/session'].map(path => document.cookie = 'codehub_session=planted; path=' + path)"
    )
    await hostile.goto(f"{path_site.url(PATH_MODE)}/")
    assert await hostile.evaluate(asked) == 200
    kept = await hostile.context.cookies(f"{path_site.url(PATH_MODE)}/api/v1/session")
    assert [each["path"] for each in kept if each["name"] == "codehub_session"] == ["/"]
