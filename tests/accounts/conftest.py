"""The API over a real PostgreSQL and a real Valkey, as a browser or a program meets it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from codehub.config import Settings
from codehub.db.pool import Pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.signals.connect import Redis
from codehub.web.app import create_app
from codehub.web.context import Context

BASE_URL = "http://codehub.test"


@pytest.fixture
def context(pool: Pool, redis: Redis, settings: Settings) -> Context:
    return Context(settings, pool, redis, lambda: {InstanceBackend.PROCESS: ["ide"]}, InstanceBackend.PROCESS)


@pytest.fixture
async def client(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    """A program: it sends no header that a browser would."""
    app = create_app({}, Metrics(), context=context)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("192.0.2.7", 1234))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client
