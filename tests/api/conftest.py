"""The API over a real PostgreSQL and a real Valkey; workspaces are rows, as the coordinator would leave them."""

from collections.abc import AsyncIterator

import httpx
import pytest

from codehub.config import Settings
from codehub.db.pool import Pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.actors import UserRole
from codehub.services.workspaces.terms import Terms
from codehub.signals.connect import Redis
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.accounts.people import Person, add_person, token_headers
from tests.api.caller import Caller

BASE_URL = "http://codehub.test"
IMAGES = {InstanceBackend.PROCESS: ["ide", "jupyterlab"], InstanceBackend.DOCKER: ["registry.example/team/*", "ide"]}


@pytest.fixture
def context(pool: Pool, redis: Redis, settings: Settings) -> Context:
    return Context(settings, pool, redis, lambda: IMAGES, InstanceBackend.PROCESS)


@pytest.fixture
def terms(settings: Settings) -> Terms:
    return Terms.of(settings, lambda: IMAGES, InstanceBackend.PROCESS)


@pytest.fixture
async def http(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app({}, Metrics(), context=context)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("192.0.2.7", 1234))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client


async def _caller(http: httpx.AsyncClient, pool: Pool, name: str, role: UserRole = UserRole.USER) -> Caller:
    person: Person = await add_person(pool, name, role)
    return Caller(http, person, await token_headers(pool, person))


@pytest.fixture
async def ada(http: httpx.AsyncClient, pool: Pool) -> Caller:
    """A user."""
    return await _caller(http, pool, "ada")


@pytest.fixture
async def bob(http: httpx.AsyncClient, pool: Pool) -> Caller:
    """Another one."""
    return await _caller(http, pool, "bob")


@pytest.fixture
async def root(http: httpx.AsyncClient, pool: Pool) -> Caller:
    """An administrator."""
    return await _caller(http, pool, "root", UserRole.ADMIN)
