"""The API over a real PostgreSQL and a real Valkey; workspaces are rows, as the coordinator would leave them."""

from collections.abc import AsyncIterator

import httpx
import psycopg
import pytest

from codehub.config import Settings
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.actors import UserRole
from codehub.services.workspaces.terms import Terms
from codehub.signals.connect import Redis, open_redis
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.accounts.people import Person, add_person, token_headers
from tests.api.caller import Caller

BASE_URL = "http://codehub.test"
IMAGES = {InstanceBackend.PROCESS: ["ide", "jupyterlab"], InstanceBackend.DOCKER: ["ide"]}


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    """A connection as the tables' owner, for arranging and looking; every statement commits."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with open_pool(database, Role.API) as pool:
        yield pool


@pytest.fixture
async def redis(server_redis: str) -> AsyncIterator[Redis]:
    async with open_redis(server_redis) as client:
        await client.flushdb()
        yield client


@pytest.fixture
def settings() -> Settings:
    return Settings.load()


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
