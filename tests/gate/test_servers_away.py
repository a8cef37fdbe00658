"""PostgreSQL and Redis really stop under a proxy that is at work: who is inside goes on, then everybody is told why."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from codehub.cli.fronting import serve_public
from codehub.cli.serving import application, serve_with_events
from codehub.config import Settings
from codehub.db.pool import Role, open_pool
from codehub.embedded import DataDir, EmbeddedServers
from codehub.model.workspace import InstanceBackend
from codehub.signals.connect import open_redis
from codehub.web.context import Context
from codehub.web.proxy.gate import Pace
from codehub.web.server import listen, listen_unix
from tests.accounts.people import add_person, session_headers
from tests.api.conftest import IMAGES
from tests.db.support import add_workspace
from tests.embedded.prepared import prepared
from tests.gate.test_front import inside
from tests.support import eventually_async, short_folder

__all__ = ["inside"]

TRUST, OPEN = 8.0, 12.0  # seconds, of 30 and 300


@asynccontextmanager
async def served(settings: Settings, folder: Path, database: str, redis_url: str) -> AsyncIterator[int]:
    """The port of a proxy with an API behind it."""
    pace = Pace(check_seconds=0.2, again_seconds=0.2, trust_seconds=TRUST, open_seconds=OPEN)
    async with open_pool(database, Role.API) as pool, open_redis(redis_url) as redis:
        context = Context(settings, pool, redis, lambda: IMAGES, InstanceBackend.PROCESS)
        behind, listener = listen_unix(folder / "web" / "api.sock"), listen("127.0.0.1", 0)
        tasks = {
            asyncio.create_task(serve_with_events(application({}, context), behind)),
            asyncio.create_task(
                serve_public(settings, [listener], [f"unix:{folder}/web/api.sock"], database, redis_url, pace=pace)
            ),
        }
        try:
            yield listener.getsockname()[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            listener.close()
            behind.close()


async def opened_socket(port: int, path: str, cookie: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(bytes(16)).decode()
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nCookie: {cookie}\r\n\r\n".encode()
    )
    assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    return reader, writer


@pytest.mark.exhaustive
async def test_who_is_inside_goes_on_for_a_while_and_then_is_told_why(settings: Settings, inside: int) -> None:
    folder = short_folder()
    with DataDir.open(await asyncio.to_thread(prepared, folder / "d")) as data:
        embedded = EmbeddedServers(data, durable=False)
        async with AsyncExitStack() as running:
            servers = await running.enter_async_context(embedded.running())
            database, redis_url = servers.database_url, servers.redis_url
            assert database is not None
            assert redis_url is not None
            async with (
                await psycopg.AsyncConnection.connect(database, autocommit=True) as owner,
                open_pool(database, Role.API) as pool,
            ):
                ada = await add_person(pool)
                cookie = (await session_headers(pool, ada))["Cookie"]
                row = {"phase": "RUNNING", "desired_state": "RUNNING", "op_id": uuid4()}
                known, unknown = [
                    await add_workspace(owner, owner_user_id=ada.id, endpoint=f"127.0.0.1:{inside}", **row)
                    for _ in range(2)
                ]
            async with served(settings, folder, database, redis_url) as port, httpx.AsyncClient(timeout=20) as browser:
                url, person = f"http://127.0.0.1:{port}/w/", {"Cookie": cookie, "Accept": "text/html"}
                assert (await browser.get(f"{url}{known}/", headers=person)).status_code == 200
                reader, writer = await opened_socket(port, f"/w/{known}/ws", cookie)
                stopping = time.monotonic()
                await running.aclose()  # both servers are gone
                served_on = 0
                while time.monotonic() - stopping < TRUST - 2:  # what is known was confirmed a moment before
                    answer = await browser.get(f"{url}{known}/", headers=person)
                    assert answer.status_code == 200, "from memory"
                    served_on += 1
                    await asyncio.sleep(0.02)  # some dozens, not as many as there can be
                assert served_on > 1
                page = await browser.get(f"{url}{unknown}/", headers=person)
                assert page.status_code == 503, "nobody new gets in"

                async def is_told() -> bool:
                    return (await browser.get(f"{url}{known}/", headers=person)).status_code == 503

                await eventually_async(is_told, "what is known grows too old", TRUST + 10)
                page = await browser.get(f"{url}{known}/", headers=person)
                assert page.headers["content-type"].startswith("text/html")
                assert "<h1>" in page.text
                told = await browser.get(f"{url}{known}/", headers={"Cookie": cookie})
                assert (told.status_code, told.json()["error"]["code"]) == (503, "unavailable")
                await asyncio.wait_for(reader.read(), OPEN + 10)  # the WebSocket stays a little longer, not for ever
                assert time.monotonic() - stopping > TRUST
                writer.close()
                await running.enter_async_context(embedded.running())

                async def is_inside() -> bool:
                    return (await browser.get(f"{url}{known}/", headers=person)).status_code == 200

                await eventually_async(is_inside, "they are back", 20)
