"""Settings that hold for every test, and the servers that tests share."""

import asyncio
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import hypothesis
import psycopg
import pytest
from hypothesis import HealthCheck
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from codehub.config import Settings
from codehub.db import migrate
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.embedded import DataDir, EmbeddedServers
from codehub.signals.connect import Redis, open_redis
from tests.embedded.prepared import prepared
from tests.lab import runs, skips
from tests.support import TEST_HOSTS, Databases, folder_in_memory

# Known to its workers, and to every program that they start.
runs.current()


# Whoever starts the tests in the background may have them ignore Ctrl-C, and with them every program that they start.
# Whoever ends them has them clean up, as if it had been Ctrl-C. A handler of our own: an event loop puts its own in the
# place of Python's, and a test that waits outside of the loop would not notice.
def _end(number: int, _: FrameType | None) -> None:
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_IGN)  # told twice, it would not come to its end
    raise KeyboardInterrupt


if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)


def pytest_configure(config: pytest.Config) -> None:
    """An ordinary run is the same every time, so a failure is a change's fault; EXAMPLES=100000 searches new ground."""
    is_short = "not exhaustive" in config.option.markexpr
    hypothesis.settings.register_profile(
        "codehub",
        max_examples=int(os.environ.get("EXAMPLES", "200" if is_short else "1000")),
        deadline=None,
        derandomize="EXAMPLES" not in os.environ,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    hypothesis.settings.load_profile("codehub")


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        runs.say_swept()


# A file's tests take turns in one worker. Whatever uses the machine itself (containers, user ids, processes that are
# killed) does so under names and user ids of its own: another file, or another run of the tests, may be at work beside
# it. Those that take longest begin, so that all workers end at about the same time. These share what is dear to make.
# Whatever loads settings, here or in a process of its own.
os.environ.setdefault("CODEHUB_ALLOWED_HOSTS", ",".join(TEST_HOSTS))

_TOGETHER = ("contract", "drivers_docker")
_LONGEST = (
    "crash", "browser", "contract", "cli", "upgrade", "drivers_docker", "storage_job", "simulation", "embedded", "gate",
    "accounts", "backup", "drivers_process", "proxy", "db", "events", "api", "model", "coordinator",
)  # fmt: skip


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]  # untyped, as it was imported
    """Marks of groups would do, but xdist reads them in a way that this pytest does not know any more."""

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(nodeid)
        return folder if folder in _TOGETHER else nodeid.partition("::")[0]


def _folder(nodeid: str) -> str:
    return Path(nodeid.partition("::")[0]).relative_to("tests").parts[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    if config.getvalue("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # by the number of tests, where ours are in order already
    return _ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """What needs an engine or a cluster is exhaustive, wherever it is."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    given = "-".join(str(each) for each in item.callspec.params.values()) if hasattr(item, "callspec") else ""
    if "k8s" in given.split("-") or "/k8s/" in item.nodeid or "deploy/test_k8s_" in item.nodeid:
        item.add_marker(pytest.mark.exhaustive(needs="a Kubernetes cluster"))
    elif "docker" in given.split("-") or "lab" in fixtures:
        item.add_marker(pytest.mark.exhaustive(needs="a Docker engine"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        order = {folder: place for place, folder in enumerate(_LONGEST)}
        items.sort(key=lambda item: order.get(_folder(item.nodeid), len(order)))


_LEFT_OUT: Counter[str] = Counter()  # of a worker: each has left out the same


def pytest_deselected(items: list[pytest.Item]) -> None:
    for mark in filter(None, (item.get_closest_marker("exhaustive") for item in items)):
        _LEFT_OUT[
            skips.reason(mark.kwargs.get("needs", "more time: slow variants of what was tested"), "make test-all")
        ] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(_LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    told: dict[str, int] = getattr(node, "workeroutput", {}).get("left_out", {})
    _LEFT_OUT.update({reason: number for reason, number in told.items() if reason not in _LEFT_OUT})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [str(report.longrepr[2]) for report in terminalreporter.getreports("skipped")]
    lines = skips.table(reasons, _LEFT_OUT)
    if lines:
        terminalreporter.section("not tested here")
        for line in lines:
            terminalreporter.line(line)


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
    with DataDir.open(await asyncio.to_thread(prepared, folder / "d")) as data:
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
