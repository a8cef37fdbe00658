"""Every route beside everybody who may come: what the table says is what they get, and nothing is left out."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from codehub.config import Settings
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.actors import Scope, UserRole
from codehub.signals.connect import Redis, open_redis
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.live import Hub
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.api.access import TABLE, Route, Who, application, page
from tests.api.conftest import BASE_URL, IMAGES
from tests.db.support import add_workspace
from tests.support import Databases

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@dataclass
class House:
    """An installation with people in it."""

    conn: Connection
    pool: Pool
    redis: Redis
    app: Any
    owner: Person
    other: Person
    admin: Person

    async def headers(self, who: Who) -> dict[str, str]:
        match who:
            case Who.ANONYMOUS:
                return {}
            case Who.EXPIRED:
                return await session_headers(self.pool, self.owner, timedelta(seconds=-1))
            case Who.READ_ONLY:
                return await token_headers(self.pool, self.owner, Scope.READ)
            case Who.OWNER:
                return await session_headers(self.pool, self.owner)
            case Who.OTHER:
                return await session_headers(self.pool, self.other)
            case Who.ADMIN:
                return await session_headers(self.pool, self.admin)

    async def thing(self, route: Route) -> dict[str, str]:
        """What the route is about: the owner's, made for this try."""
        desired = {"going": "DELETED", "ERROR": "STANDBY"}.get(route.state, route.state)
        phase = "STANDBY" if route.state == "going" else route.state
        reason = "Timeout" if route.state == "ERROR" else None
        workspace = await add_workspace(
            self.conn, owner_user_id=self.owner.id, phase=phase, desired_state=desired, error_reason=reason
        )
        await session_headers(self.pool, self.owner)
        await token_headers(self.pool, self.owner)
        made = "SELECT id FROM {} WHERE user_id = %s ORDER BY created_at DESC, id LIMIT 1"
        session = await (await self.conn.execute(made.format("sessions").encode(), [self.owner.id])).fetchone()
        token = await (await self.conn.execute(made.format("tokens").encode(), [self.owner.id])).fetchone()
        assert session is not None
        assert token is not None
        return {
            "workspace_id": str(workspace),
            "session_id": str(session[0]),
            "token_id": str(token[0]),
            "user_id": str((await add_person(self.pool, f"somebody-{uuid4().hex[:8]}")).id),
        }


@pytest.fixture(scope="module")
async def house(databases: Databases, migrated_template: str, server_redis: str) -> AsyncIterator[House]:
    with databases.one(migrated_template) as url:
        async with (
            await psycopg.AsyncConnection.connect(url, autocommit=True) as conn,
            open_pool(url, Role.API) as pool,
            open_redis(server_redis) as redis,
        ):
            await redis.flushdb()
            yield await _house(conn, pool, redis)


async def _house(conn: Connection, pool: Pool, redis: Redis) -> House:
    context = Context(Settings.load(), pool, redis, lambda: IMAGES, InstanceBackend.PROCESS)
    app = create_app({}, Metrics(), context=context)
    app.state.hub = Hub.over(context)
    return House(
        conn,
        pool,
        redis,
        app,
        await add_person(pool, "ada"),
        await add_person(pool, "bob"),
        await add_person(pool, "root", UserRole.ADMIN),
    )


async def status_of(app: Any, request: httpx.Request) -> int:
    """The status alone: what follows it may not end by itself."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    body = [{"type": "http.request", "body": request.content, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if body:
            return body.pop()
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start" and not found.done():
            found.set_result(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.url.path,
        "raw_path": request.url.raw_path,
        "query_string": request.url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("192.0.2.7", 1234),
        "server": ("codehub.test", 80),
    }
    serving = asyncio.ensure_future(app(scope, receive, send))
    try:
        async with asyncio.timeout(20):
            return await found
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("route", TABLE, ids=lambda route: route.name)
async def test_each_gets_what_the_table_says(house: House, route: Route) -> None:
    got = {}
    for who in Who:
        names = await house.thing(route)
        await house.redis.flushdb()  # nobody is slowed down for what others tried
        body = {
            name: f"user-{uuid4().hex[:8]}" if value == "{fresh}" else value
            for name, value in (route.body or {}).items()
        }
        request = httpx.Request(
            route.method,
            BASE_URL + "/api/v1" + route.path.format(**names),
            headers=await house.headers(who),
            json=body or None,
        )
        got[who] = await status_of(house.app, request)
    assert got == {who: route.answer(who) for who in Who}


def test_no_route_is_left_out() -> None:
    paths = application().openapi()["paths"]
    published = {f"{method.upper()} {path.removeprefix('/api/v1')}" for path in paths for method in paths[path]}
    assert published == {route.name for route in TABLE}


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"
