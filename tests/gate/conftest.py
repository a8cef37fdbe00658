"""A gate that runs, with people before it; workspaces are rows, as the coordinator leaves them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.db.doors import Door, Opened
from codehub.db.pool import API_TIMEOUTS, Connection, Pool, Role, open_pool
from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import UserRole
from codehub.services.visits import Doors
from codehub.signals.connect import Redis
from codehub.signals.subscriptions import Told, subscribe
from codehub.web.hosts import Hosts
from codehub.web.proxy.backends import Backends
from codehub.web.proxy.gate import Gate, Pace
from codehub.web.proxy.ports import Decision, Request, Route
from tests.accounts.people import Person, add_person
from tests.db.support import add_workspace
from tests.support import TEST_HOSTS

API = "unix:/run/api"
SSE = "test:sse:"
QUICK = Pace(check_seconds=0.1, again_seconds=0.1)


class CountedDoors(Doors):
    """The real ones, which count, and can be away or hang."""

    is_away = False
    silence: asyncio.Event | None = None
    seen_and_kept: asyncio.Event | None = None  # until when an answer is on its way
    asked = kept = 0

    async def opened(self, asked: Sequence[Door]) -> Mapping[Door, Opened]:
        self.asked += 1
        if self.is_away:
            raise Unavailable("The database is away.")
        if self.silence is not None:
            await self.silence.wait()
        found = await super().opened(asked)
        if self.seen_and_kept is not None:
            self.kept += 1
            await self.seen_and_kept.wait()
        return found


@dataclass(eq=False)
class Something:
    """A WebSocket, for example."""

    ended: int = 0

    def end(self) -> None:
        self.ended += 1


@dataclass
class Scene:
    """A gate, and what is behind it."""

    gate: Gate
    doors: CountedDoors
    owner: Connection
    pool: Pool
    extra: dict[str, Any] = field(default_factory=dict)

    async def ask(self, request: Request) -> Decision:
        answer = self.gate.route(request)
        return answer if isinstance(answer, Route) or not hasattr(answer, "__await__") else await answer

    async def goes_in(self, request: Request) -> Route:
        route = await self.ask(request)
        assert isinstance(route, Route)
        assert route.workspace is not None, "it went to the API"
        return route

    async def is_sent_to_the_api(self, request: Request) -> bool:
        route = await self.ask(request)
        return isinstance(route, Route) and route.workspace is None and route.address == API

    async def running(self, person: Person, endpoint: str = "10.0.0.1:8080", **columns: Any) -> WorkspaceId:
        return await add_workspace(
            self.owner,
            **{
                "owner_user_id": person.id,
                "phase": "RUNNING",
                "desired_state": "RUNNING",
                "endpoint": endpoint,
                "op_id": uuid4(),
                **columns,
            },
        )


def request(target: str, headers: Mapping[str, str] | None = None, **more: Any) -> Request:
    given = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return Request(
        method=more.get("method", "GET").encode(),
        target=target.encode(),
        headers=given,
        host=more.get("host", "codehub.test").encode(),
        peer="192.0.2.9",
        is_secure=more.get("is_secure", False),
        is_upgrade=more.get("is_upgrade", False),
    )


@asynccontextmanager
async def gate_over(
    database: str,
    redis: Redis,
    owner: Connection,
    pool: Pool,
    pace: Pace = QUICK,
    workspace_host: str | None = None,
    *,
    is_guarded: bool = True,
) -> AsyncGenerator[Scene, None]:
    def hear() -> AsyncGenerator[Told | None, None]:
        return subscribe(redis, SSE)

    async with open_pool(database, Role.PROXY, timeouts=API_TIMEOUTS) as own:
        doors = CountedDoors(own, idle=timedelta(days=7), is_guarded=is_guarded)
        hosts = Hosts(workspace_host, names=TEST_HOSTS)
        gate = Gate(doors, hear, hosts, Backends([API]), pace, is_guarded=is_guarded)
        running = asyncio.create_task(gate.run())
        try:
            yield Scene(gate, doors, owner, pool)
        finally:
            running.cancel()
            await asyncio.wait({running})


@pytest.fixture
async def scene(database: str, redis: Redis, owner: Connection, pool: Pool) -> AsyncIterator[Scene]:
    async with gate_over(database, redis, owner, pool) as scene:
        yield scene


@pytest.fixture
async def ada(pool: Pool) -> Person:
    return await add_person(pool, "ada")


@pytest.fixture
async def bob(pool: Pool) -> Person:
    return await add_person(pool, "bob")


@pytest.fixture
async def root(pool: Pool) -> Person:
    return await add_person(pool, "root", UserRole.ADMIN)


async def session_id(owner: Connection, person: Person) -> UUID:
    row = await (await owner.execute("SELECT id FROM sessions WHERE user_id = %s", [person.id])).fetchone()
    assert row is not None
    found: UUID = row[0]
    return found


async def token_id(owner: Connection, person: Person) -> UUID:
    row = await (await owner.execute("SELECT id FROM tokens WHERE user_id = %s", [person.id])).fetchone()
    assert row is not None
    found: UUID = row[0]
    return found
