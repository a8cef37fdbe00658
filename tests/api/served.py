"""The API on a real socket, served from a thread with an event loop of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from codehub.cli.serving import serve_with_events
from codehub.config import Settings
from codehub.coordinator.archive_answers import archive_answers
from codehub.db.pool import API_TIMEOUTS, Role, open_pool
from codehub.drivers.memory import MemoryWorld
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.signals.connect import open_redis
from codehub.signals.questions import Answerer, Body
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.live import Hub
from codehub.web.server import listen, url_of
from tests.api.conftest import IMAGES
from tests.support import background


@contextmanager
def served(database_url: str, redis_url: str) -> Iterator[str]:
    """Its URL, without the last slash."""
    loop = asyncio.new_event_loop()
    listener = listen("127.0.0.1", 0)

    async def run() -> None:
        async with (
            open_pool(database_url, Role.API, timeouts=API_TIMEOUTS) as pool,
            open_redis(redis_url) as redis,
        ):
            context = Context(Settings.load(), pool, redis, lambda: IMAGES, InstanceBackend.PROCESS)
            app = create_app({}, Metrics(), context=context)
            app.state.hub = Hub.over(context)
            archives = archive_answers(MemoryWorld().archives)
            async with background(Answerer(redis, {"logs": _logs, **archives}).run()):  # in the leader's place
                await serve_with_events(app, listener)

    serving = loop.create_task(run())
    thread = threading.Thread(target=_until_done, args=(loop, serving), name="api")
    thread.start()
    try:
        yield url_of(listener).rstrip("/")
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join(timeout=30)
        listener.close()


async def _logs(_body: Body) -> dict[str, object]:
    return {"text": "a line\n", "cut": False}


def _until_done(loop: asyncio.AbstractEventLoop, serving: "asyncio.Task[None]") -> None:
    try:
        loop.run_until_complete(asyncio.gather(serving, return_exceptions=True))
    finally:
        loop.close()
