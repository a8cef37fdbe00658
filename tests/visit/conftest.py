"""The API with a browser before it; workspaces are rows, as the coordinator leaves them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from codehub.db.pool import Connection, Pool
from codehub.metrics import Metrics
from codehub.model.workspace import WorkspaceId
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.accounts.people import Person, add_person, session_headers
from tests.api.conftest import context
from tests.db.support import add_workspace

__all__ = ["context"]

MAIN, PLAIN, LOOPBACK = "localhost:8080", "192.0.2.8:8080", "127.0.0.1:8080"
GOING_THERE = {
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "none",
    "Accept": "text/html,*/*",
}
SCRIPT = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin", "Accept": "*/*"}


@dataclass
class Browser:
    """Sends what browsers send, and follows nothing by itself."""

    http: httpx.AsyncClient
    credential: Mapping[str, str] = field(default_factory=dict)

    async def goes_to(self, path: str, host: str = MAIN, **headers: str) -> httpx.Response:
        return await self._send("GET", path, host, {**GOING_THERE, **headers})

    async def fetches(self, path: str, host: str = MAIN, method: str = "GET", **headers: str) -> httpx.Response:
        return await self._send(method, path, host, {**SCRIPT, **headers})

    async def presses(self, path: str, host: str = MAIN, **headers: str) -> httpx.Response:
        return await self._send("POST", path, host, {**GOING_THERE, "Sec-Fetch-Site": "same-origin", **headers})

    async def _send(self, method: str, path: str, host: str, headers: dict[str, str]) -> httpx.Response:
        given = {**self.credential, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.http.cookies.clear()  # browsers share the connection, not what they were given
        return await self.http.request(method, f"http://{host}{path}", headers=given)


@asynccontextmanager
async def api_over(context: Context, hold_seconds: float = 0.0) -> AsyncIterator[httpx.AsyncClient]:
    """As from the proxy's unix socket: without an address of its own."""
    app = create_app({}, Metrics(), context=context)
    app.state.hold_seconds = hold_seconds

    async def from_the_proxy(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": None}, receive, send)

    transport = httpx.ASGITransport(from_the_proxy, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport) as client:
        yield client


@pytest.fixture
async def http(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    async with api_over(context) as client:
        yield client


@pytest.fixture
async def person(pool: Pool) -> Person:
    return await add_person(pool)


@pytest.fixture
async def ada(http: httpx.AsyncClient, pool: Pool, person: Person) -> Browser:
    return Browser(http, {"Cookie": (await session_headers(pool, person))["Cookie"]})


@pytest.fixture
async def workspace(owner: Connection, person: Person) -> WorkspaceId:
    """One that runs."""
    return await running(owner, person)


async def running(owner: Connection, person: Person, **columns: Any) -> WorkspaceId:
    row = {"phase": "RUNNING", "desired_state": "RUNNING", "endpoint": "10.0.0.1:80", "op_id": uuid4(), **columns}
    return await add_workspace(owner, owner_user_id=person.id, **row)


async def resting(owner: Connection, person: Person, phase: str, **columns: Any) -> WorkspaceId:
    return await add_workspace(
        owner, owner_user_id=person.id, **{"phase": phase, "desired_state": phase, "name": "thesis", **columns}
    )


async def moving(
    owner: Connection, person: Person, phase: str, operation: str, desired: str, **columns: Any
) -> WorkspaceId:
    """One that an operation is under way for, since now."""
    now = datetime.now(UTC)
    under_way = {"desired_state": desired, "operation": operation, "op_id": uuid4(), "op_started_at": now}
    return await resting(owner, person, phase, **under_way, **columns)
