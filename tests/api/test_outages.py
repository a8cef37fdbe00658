"""PostgreSQL or Redis is gone, or says nothing any more: 503 in the error shape within two seconds where it is needed,
and back by itself.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest

from codehub.config import Settings
from codehub.db.pool import API_TIMEOUTS, Connection, Pool, Role, open_pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.signals.connect import Redis, open_redis
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.accounts.people import add_person, token_headers
from tests.api.caller import Caller, error
from tests.api.conftest import BASE_URL, IMAGES
from tests.events.test_questions import answering
from tests.lab.wire import wire_to_database, wire_to_redis
from tests.support import eventually_async


@asynccontextmanager
async def calling(pool: Pool, url: str, redis: Redis, settings: Settings) -> AsyncIterator[Caller]:
    """Somebody who calls an API whose way to PostgreSQL is `url`."""
    person = await add_person(pool, "ada")
    headers = await token_headers(pool, person)
    async with open_pool(url, Role.API, timeouts=API_TIMEOUTS) as far:
        context = Context(settings, far, redis, lambda: IMAGES, InstanceBackend.PROCESS)
        transport = httpx.ASGITransport(create_app({}, Metrics(), context=context), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as http:
            yield Caller(http, person, headers)


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 2.0


async def refused_in_time(caller: Caller, path: str = "/workspaces") -> None:
    async with in_time():
        answer = await caller.get(path)
    assert error(answer) == (503, "unavailable")
    assert answer.headers["retry-after"]


async def works(caller: Caller) -> bool:
    return (await caller.get("/workspaces")).status_code == 200


async def test_postgresql_is_gone_and_comes_back(database: str, pool: Pool, redis: Redis, settings: Settings) -> None:
    async with wire_to_database(database) as (wire, url), calling(pool, url, redis, settings) as ada:
        assert await works(ada)
        await wire.cut()
        for _ in range(3):
            await refused_in_time(ada)
        await wire.mend()
        await eventually_async(lambda: works(ada), "it works again by itself")


async def test_postgresql_says_nothing_any_more(database: str, pool: Pool, redis: Redis, settings: Settings) -> None:
    async with wire_to_database(database) as (wire, url), calling(pool, url, redis, settings) as ada:
        assert await works(ada)
        wire.silence()
        await refused_in_time(ada)
        await asyncio.gather(*(refused_in_time(ada) for _ in range(20)))
        wire.speak()
        await eventually_async(lambda: works(ada), "it works again by itself")


@pytest.mark.parametrize("how", ["cut", "silence"])
async def test_redis_is_gone_and_comes_back(
    database: str, server_redis: str, pool: Pool, redis: Redis, settings: Settings, owner: Connection, how: str
) -> None:
    """What needs it is refused; everything else goes on without what only Redis knows."""
    async with (
        wire_to_redis(server_redis) as (wire, url),
        open_redis(url) as far,
        answering(redis, logs=_some_logs),
        calling(pool, database, far, settings) as ada,
    ):
        running = await ada.has(owner, "RUNNING")
        busy = await ada.has(owner, "STANDBY", operation="STARTING", op_id=uuid4(), desired_state="RUNNING")
        logs = f"/workspaces/{running}/logs"
        assert (await ada.get(logs)).json()["text"] == "hello"
        if how == "cut":
            await wire.cut()
        else:
            wire.silence()
        await refused_in_time(ada, logs)
        async with in_time():
            assert (await ada.get(f"/workspaces/{busy}")).json()["progress"] is None
        async with in_time():
            assert (await ada.patch(f"/workspaces/{running}", {"name": "meanwhile"})).status_code == 200
        if how == "silence":
            await wire.cut()
        await wire.mend()

        async def back() -> bool:
            return (await ada.get(logs)).status_code == 200

        await eventually_async(back, "it works again by itself")


async def _some_logs(_question: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": "hello", "cut": False}
