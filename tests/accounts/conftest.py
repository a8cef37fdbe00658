"""The API over a real PostgreSQL and a real Valkey, as a browser or a program meets it."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from codehub.config import Settings
from codehub.db.pool import Pool
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.signals.connect import Redis
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.accounts.hostile_provider import CLIENT, SECRET
from tests.accounts.providers import BASE_URL, app_of, provider_process, tell


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


@pytest.fixture(scope="module")
def strict_process() -> Iterator[str]:
    with provider_process("-m", "tests.accounts.hostile_provider", "{port}") as issuer:
        yield issuer


@pytest.fixture
def strict(strict_process: str) -> str:
    tell(strict_process, lie="", claims={"sub": "subject-1", "preferred_username": "ada"}, rotated=False)
    return strict_process


@pytest.fixture
def environment() -> dict[str, str]:
    """Settings of one test beside the provider's."""
    return {}


@pytest.fixture
async def browser(
    context: Context, strict: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser at a CodeHub that knows the strict provider."""
    settings = {"OIDC_ISSUER": strict, "OIDC_CLIENT_ID": CLIENT, "OIDC_CLIENT_SECRET": SECRET, **environment}
    transport = app_of(context, monkeypatch, **settings)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client
