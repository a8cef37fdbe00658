"""The whole front on real sockets: engine, gate, API behind a unix socket, and something that runs in a workspace."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from codehub.cli.fronting import serve_public
from codehub.cli.serving import application, serve_with_events
from codehub.config import Settings
from codehub.db.pool import Connection, Pool
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.signals.activity import ACTIVITY
from codehub.signals.connect import Redis
from codehub.web.context import Context
from codehub.web.server import listen, listen_unix
from tests.accounts.people import Person, session_headers
from tests.api.conftest import IMAGES
from tests.db.support import add_workspace, change
from tests.support import eventually_async, short_folder


@dataclass
class Front:
    """Where it is, and what keeps the API behind it running."""

    port: int
    api: "asyncio.Task[None]"
    public: "asyncio.Task[None]"

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@pytest.fixture
async def inside() -> AsyncIterator[int]:
    """What runs in the workspace: answers, and takes WebSockets without a word."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"upgrade: websocket" in head.lower():
                    writer.write(
                        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
                    )
                    await reader.read()
                    break
                body = head.split(b"\r\n")[0]
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def front(pool: Pool, redis: Redis, settings: Settings, database: str, server_redis: str) -> AsyncIterator[Front]:
    folder = short_folder()
    context = Context(settings, pool, redis, lambda: IMAGES, InstanceBackend.PROCESS)
    behind, listener = listen_unix(Path(folder) / "web" / "api.sock"), listen("127.0.0.1", 0)
    quick = settings.model_copy(update={"activity": settings.activity.model_copy(update={"flush_interval": 0.2})})
    api = asyncio.create_task(serve_with_events(application({}, context), behind))
    public = asyncio.create_task(
        serve_public(quick, [listener], [f"unix:{folder}/web/api.sock"], database, server_redis)
    )
    try:
        yield Front(listener.getsockname()[1], api, public)
    finally:
        for task in (public, api):
            task.cancel()
        await asyncio.wait({public, api})
        listener.close()
        behind.close()


@pytest.fixture
async def workspace(owner: Connection, ada: Person, inside: int) -> WorkspaceId:
    row = {"phase": "RUNNING", "desired_state": "RUNNING", "endpoint": f"127.0.0.1:{inside}", "op_id": uuid4()}
    return await add_workspace(owner, owner_user_id=ada.id, **row)


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=20) as client:
        yield client


async def test_everything_has_its_place(
    front: Front, browser: httpx.AsyncClient, pool: Pool, ada: Person, workspace: WorkspaceId, owner: Connection
) -> None:
    headers = await session_headers(pool, ada)
    assert (await browser.get(front.url("/healthz"))).text == "ok\n"
    assert (await browser.get(front.url(f"/w/{workspace}/a?b"), headers=headers)).text == "GET /a?b HTTP/1.1"
    assert (await browser.get(front.url(f"/w/{workspace}/"))).status_code == 401
    wrong = {"username": "nobody", "password": "a wrong one"}
    for said in ({}, {"X-Forwarded-For": "203.0.113.9"}):
        assert (await browser.post(front.url("/api/v1/login"), json=wrong, headers=said)).status_code == 401
    row = await owner.execute("SELECT details->>'address' FROM audit_log WHERE action = 'session.login_failed'")
    found = set(await row.fetchall())
    assert found == {("127.0.0.1",), (None,)}, "whose request it is comes through; what they claim does not"
    assert (await browser.get(front.url("/metrics"))).status_code == 200
    assert (await browser.get(front.url("/metrics"), headers=said)).status_code == 403, "a server in front serves all"


async def test_a_browser_enters_at_the_workspaces_own_origin(
    front: Front, browser: httpx.AsyncClient, pool: Pool, ada: Person, workspace: WorkspaceId
) -> None:
    visit = {**await entered(front, browser, pool, ada, workspace), "Accept": "text/html"}
    assert (await browser.get(front.url("/x?y"), headers=visit)).text == "GET /x?y HTTP/1.1"
    assert (await browser.get(front.url("/api/v1/session"), headers=visit)).text == "GET /api/v1/session HTTP/1.1"


@pytest.mark.parametrize("how", ["logout", "delete"])
async def test_an_open_websocket_ends_within_seconds(
    front: Front, pool: Pool, ada: Person, workspace: WorkspaceId, owner: Connection, how: str
) -> None:
    cookie = (await session_headers(pool, ada))["Cookie"]
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    key = base64.b64encode(bytes(16)).decode()
    writer.write(
        f"GET /w/{workspace}/ws HTTP/1.1\r\nHost: 127.0.0.1:{front.port}\r\nConnection: Upgrade\r\n"
        f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\nCookie: {cookie}\r\n\r\n".encode()
    )
    assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    if how == "logout":
        await owner.execute("DELETE FROM sessions")
    else:
        await change(owner, workspace, desired_state="DELETED")
    await asyncio.wait_for(reader.read(), 10)
    writer.close()


async def test_what_is_used_is_told(
    front: Front, browser: httpx.AsyncClient, pool: Pool, ada: Person, workspace: WorkspaceId, redis: Redis
) -> None:
    headers = await session_headers(pool, ada)
    await browser.get(front.url(f"/w/{workspace}/"), headers=headers)

    async def is_told() -> bool:
        return await redis.zscore(ACTIVITY, str(workspace)) is not None

    await eventually_async(is_told, "every moment")
    before = await redis.zscore(ACTIVITY, str(workspace))
    await browser.get(front.url(f"/w/{workspace}/"), headers=headers)
    front.public.cancel()
    await asyncio.wait({front.public})
    after = await redis.zscore(ACTIVITY, str(workspace))
    assert before is not None
    assert after is not None
    assert after > before, "and at stop"


async def test_while_the_api_is_out_workspaces_go_on(
    front: Front, browser: httpx.AsyncClient, pool: Pool, ada: Person, workspace: WorkspaceId
) -> None:
    headers = await session_headers(pool, ada)
    front.api.cancel()
    await asyncio.wait({front.api})
    assert (await browser.get(front.url(f"/w/{workspace}/"), headers=headers)).status_code == 200
    answer = await browser.get(front.url("/api/v1/session"), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


async def test_a_workspace_that_does_not_answer_has_a_page(
    front: Front, browser: httpx.AsyncClient, pool: Pool, ada: Person, workspace: WorkspaceId, owner: Connection
) -> None:
    await change(owner, workspace, endpoint="127.0.0.1:1")
    headers = await session_headers(pool, ada)
    page = await browser.get(front.url(f"/w/{workspace}/"), headers={**headers, "Accept": "text/html"})
    assert page.status_code == 502
    assert "This page retries automatically" in page.text
    forged = {**headers, "Accept": "text/html", "X-CodeHub-Unreachable": "1"}
    missing = await browser.get(front.url(f"/w/{uuid4()}/"), headers=forged)
    assert missing.status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_what_another_workspaces_page_sends_never_arrives(
    front: Front, browser: httpx.AsyncClient, pool: Pool, ada: Person, workspace: WorkspaceId, method: str
) -> None:
    """They are one site, so the browser sends the cookie along."""
    there = await entered(front, browser, pool, ada, workspace)
    own = f"http://{workspace}.localhost:{front.port}"
    sent = await browser.request(method, front.url("/x"), headers={**there, "Origin": own})
    assert sent.text == f"{method} /x HTTP/1.1"
    for origin in (f"http://{uuid4()}.localhost:{front.port}", f"http://localhost:{front.port}", "null"):
        headers = {**there, "Origin": origin, "Sec-Fetch-Site": "same-site"}
        refused = await browser.request(method, front.url("/x"), headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "cross_site")


async def entered(
    front: Front, browser: httpx.AsyncClient, pool: Pool, person: Person, workspace: WorkspaceId
) -> dict[str, str]:
    """What a browser sends at the workspace's own origin, once it was handed over."""
    cookie = (await session_headers(pool, person))["Cookie"]
    url, jar = f"http://localhost:{front.port}/w/{workspace}/x?y", {f"localhost:{front.port}": cookie}
    for _ in range(4):
        to = urlsplit(url)
        headers = {"Accept": "text/html", "Host": to.netloc, "Cookie": jar.get(to.netloc, "")}
        answer = await browser.get(front.url(f"{to.path}?{to.query}"), headers=headers)
        url = answer.headers["location"]
        if "set-cookie" in answer.headers:
            jar[to.netloc] = answer.headers["set-cookie"].partition(";")[0]
    own = f"{workspace}.localhost:{front.port}"
    assert url == f"http://{own}/x?y"
    return {"Host": own, "Cookie": jar[own]}


@pytest.mark.parametrize("how", ["logout", "delete", "stop"])
async def test_a_connection_that_asks_again_and_again_is_stopped_like_any_other(
    front: Front, pool: Pool, ada: Person, workspace: WorkspaceId, owner: Connection, how: str
) -> None:
    headers = await session_headers(pool, ada)
    async with httpx.AsyncClient(timeout=20, limits=httpx.Limits(max_connections=1)) as browser:

        async def status() -> int:
            return (await browser.get(front.url(f"/w/{workspace}/"), headers=headers)).status_code

        assert [await status() for _ in range(10)] == [200] * 10
        if how == "logout":
            await owner.execute("DELETE FROM sessions")
        elif how == "delete":
            await change(owner, workspace, desired_state="DELETED")
        else:
            await change(owner, workspace, phase="STANDBY", desired_state="STANDBY", endpoint=None)

        async def is_refused() -> bool:
            try:
                return await status() in {401, 404, 503}
            except httpx.TransportError:  # cut off in the middle
                return False

        await eventually_async(is_refused, "within seconds")
        assert await status() in {401, 404, 503}


async def test_the_last_use_is_told_however_often_it_is_told_to_stop(
    browser: httpx.AsyncClient,
    pool: Pool,
    ada: Person,
    workspace: WorkspaceId,
    redis: Redis,
    settings: Settings,
    database: str,
    server_redis: str,
) -> None:
    """As `together` tells it again and again; Redis takes its time meanwhile."""
    headers, listener = await session_headers(pool, ada), listen("127.0.0.1", 0)
    public = asyncio.create_task(serve_public(settings, [listener], ["unix:/nowhere"], database, server_redis))
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/w/{workspace}/"
        assert (await browser.get(url, headers=headers)).status_code == 200
        await redis.client_pause(700, all=False)
        while not public.done():
            public.cancel()
            await asyncio.wait({public}, timeout=0.1)
    finally:
        public.cancel()
        await asyncio.wait({public})
        listener.close()
    assert await redis.zscore(ACTIVITY, str(workspace)) is not None
