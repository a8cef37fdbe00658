"""Settings that hold for every test, and the servers that tests share."""

import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import psycopg
import pytest
from hypothesis import HealthCheck
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from codehub.config import Settings
from codehub.db import migrate
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.embedded import DataDir, EmbeddedServers
from codehub.signals.connect import Redis, open_redis
from tests.support import Databases, folder_in_memory, remove_folders

# The ordinary run is the same every time, so a failure is a change's fault; EXAMPLES=100000 searches new ground.
_searching = "EXAMPLES" in os.environ
hypothesis.settings.register_profile(
    "codehub",
    max_examples=int(os.environ.get("EXAMPLES", "1000")),
    deadline=None,
    derandomize=not _searching,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("codehub")


# Whoever starts the tests in the background may have them ignore Ctrl-C, and with them every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A folder's tests take turns in one worker and share its servers. Whatever uses the machine itself (containers, user
# ids, processes that are killed) does so under names and user ids of its own: another folder, or another run of the
# tests, may be at work beside it. Those that take longest begin, so that all workers end at about the same time.
_LONGEST = (
    "cli", "browser", "crash", "upgrade", "drivers_docker", "storage_job", "accounts", "contract", "backup", "gate",
    "simulation", "embedded", "db", "events", "api", "drivers_process", "proxy", "model", "coordinator",
)  # fmt: skip


class _ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # untyped, as it was imported
    """Marks of groups would do, but xdist reads them in a way that this pytest does not know any more."""

    def _split_scope(self, nodeid: str) -> str:
        return _folder(nodeid)


def _folder(nodeid: str) -> str:
    return Path(nodeid.partition("::")[0]).relative_to("tests").parts[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    if config.getvalue("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # by the number of tests, where ours are in order already
    return _ByFolder(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        order = {folder: place for place, folder in enumerate(_LONGEST)}
        items.sort(key=lambda item: order.get(_folder(item.nodeid), len(order)))


def pytest_sessionfinish() -> None:
    remove_folders()


@dataclass(frozen=True)
class ServerUrls:
    """Where the shared servers are."""

    database: str
    redis: str


@pytest.fixture(scope="session")
async def server_urls() -> AsyncIterator[ServerUrls]:
    """PostgreSQL and Valkey for all tests that do not stop them: external ones when named, else our own."""
    database, redis = os.environ.get("CODEHUB_TEST_DATABASE_URL"), os.environ.get("CODEHUB_TEST_REDIS_URL")
    folder = folder_in_memory()
    with DataDir.open(folder / "d") as data:
        embedded = EmbeddedServers(data, durable=False, postgres=database is None, valkey=redis is None)
        async with embedded.running() as servers:
            database, redis = database or servers.database_url, redis or servers.redis_url
            assert database is not None
            assert redis is not None
            yield ServerUrls(database, redis)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def database_server(server_urls: ServerUrls) -> str:
    """A PostgreSQL to make databases on."""
    return server_urls.database


@pytest.fixture(scope="session")
def server_redis(server_urls: ServerUrls) -> str:
    return server_urls.redis


@pytest.fixture(scope="session")
def databases(database_server: str) -> Databases:
    return Databases(database_server)


@pytest.fixture(scope="session")
def migrated_template(databases: Databases) -> Iterator[str]:
    """A database at the newest version, to be cloned and never connected to."""
    with databases.one() as url:
        migrate.upgrade(url)
        yield url


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


@pytest.fixture
def database(databases: Databases, migrated_template: str) -> Iterator[str]:
    """A database at the newest version, of the test's own."""
    with databases.one(migrated_template) as url:
        yield url


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    """A connection as the tables' owner, for arranging and looking; every statement commits."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    """As the service layer has one."""
    async with open_pool(database, Role.API) as pool:
        yield pool


@pytest.fixture
async def redis(server_redis: str) -> AsyncIterator[Redis]:
    """An empty one: tests run one after the other."""
    async with open_redis(server_redis) as client:
        await client.flushall()
        yield client
        await client.flushall()


@pytest.fixture
def settings() -> Settings:
    return Settings.load()
