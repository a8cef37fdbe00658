"""A server with a hub on real servers, what the coordinator publishes, and dashboards that watch it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from codehub.config import Settings
from codehub.coordinator.listen import EventListener
from codehub.db.pool import Pool, Role, Timeouts, open_pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.services.live import LiveWorkspaces
from codehub.signals.connect import open_redis
from codehub.signals.events import RedisEvents
from codehub.web.api import events
from codehub.web.app import ROUTERS, create_app
from codehub.web.context import Context
from codehub.web.live import Hub, Pace
from codehub.web.server import listen, serve, url_of
from tests.accounts.people import Person, add_person, session_headers
from tests.support import background, eventually_async

QUICK = Pace(credential_seconds=0.05, poll_seconds=0.05, again_seconds=0.05)
Heard = tuple[str, dict[str, Any]]


@dataclass
class Dashboard:
    """Everything that one connection was told."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    is_over: bool = False

    def of(self, identity: WorkspaceId) -> list[Heard]:
        return [(name, data) for name, data in self.heard if data.get("id") == str(identity)]

    def names(self, identity: WorkspaceId) -> list[str]:
        """What this workspace was called, event by event."""
        return [data.get("name", name) for name, data in self.of(identity)]

    @property
    def is_shown(self) -> bool:
        return ("heartbeat", {}) in self.heard

    async def until(self, condition: Any, what: str, seconds: float = 20.0) -> None:
        async def holds() -> bool:
            return bool(condition(self))

        await eventually_async(holds, f"{what}; heard {self.heard[-5:]}", seconds)

    async def watch(self, client: httpx.AsyncClient, headers: Mapping[str, str]) -> None:
        async with client.stream("GET", "/api/v1/events", headers=dict(headers)) as answer:
            self.status, self.headers = answer.status_code, answer.headers
            name = ""
            with suppress(httpx.TransportError):
                async for line in answer.aiter_lines():
                    field_name, _, value = line.partition(": ")
                    if field_name == "event":
                        name = value
                    elif field_name == "data":
                        self.heard.append((name, json.loads(value)))
        self.is_over = True


@dataclass
class Server:
    """One process that serves streams."""

    url: str
    hub: Hub
    pool: Pool
    context: Context
    serving: "asyncio.Task[None]"

    async def person(self, username: str = "ada") -> Person:
        return await add_person(self.pool, username)

    @asynccontextmanager
    async def dashboard(
        self, person: Person, headers: Mapping[str, str] | None = None, *, is_shown: bool = True
    ) -> AsyncIterator[Dashboard]:
        """One that has been shown everything, unless that is what the test is about."""
        dashboard = Dashboard()
        given = headers if headers is not None else await session_headers(self.pool, person)
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=None) as client,
            background(dashboard.watch(client, given)),
        ):
            await dashboard.until(lambda it: it.status, "it is answered")
            if is_shown:
                await dashboard.until(lambda it: it.is_shown, "it is shown what there is")
            yield dashboard


@asynccontextmanager
async def serving(
    database_url: str,
    redis_url: str,
    pace: Pace = QUICK,
    settings: Settings | None = None,
    source_type: type[LiveWorkspaces] = LiveWorkspaces,
) -> AsyncIterator[Server]:
    settings = settings or Settings.load()
    timeouts = Timeouts(connect=3, checkout=3, statement=3)  # an outage is noticed while a test waits for it
    async with (
        open_pool(database_url, Role.API, max_size=4, timeouts=timeouts) as pool,
        open_redis(redis_url) as redis,
    ):
        await pool.wait()
        context = Context(settings, pool, redis, lambda: {InstanceBackend.PROCESS: ["ide"]}, InstanceBackend.PROCESS)
        app = create_app({}, Metrics(), context=context)
        if events.router not in ROUTERS:
            app.include_router(events.router, prefix="/api/v1")
        app.state.hub = hub = Hub.over(context, pace, source_type)
        with listen("127.0.0.1", 0) as listener:
            # The hub ends first, as in cli/serving.py: then no stream holds up the server's end.
            async with background(serve(app, listener)), background(hub.run()) as running:
                yield Server(url_of(listener), hub, pool, context, running)


@asynccontextmanager
async def publishing(database_url: str, redis_url: str) -> AsyncIterator[EventListener]:
    """The leader's listener, which tells Redis what PostgreSQL notifies."""
    channels = Settings.load().redis_channels
    async with open_redis(redis_url) as redis:
        listener = EventListener(
            database_url, RedisEvents(redis, sse_prefix=channels.sse_prefix, wake_prefix=channels.wake_prefix)
        )
        async with background(listener.run()):

            async def connected() -> bool:
                return listener.status.connected

            await eventually_async(connected, "the listener listens")
            yield listener
