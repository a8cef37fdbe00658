"""`codehub up`: everything on one machine, in one process, with servers of its own.

Order of start: the port (a port in use costs nothing), the data directory, the drivers, the servers, the migrations, a
first IDE, HTTP. Stopping goes the other way, on Ctrl-C or SIGTERM, at any moment of the start too. What is left behind
is data and the workspaces that run, which the next start finds again.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import SecretStr

from codehub import __version__
from codehub.cli import first_admin, ide
from codehub.cli.checks.machine import data_dir_of, running_url
from codehub.cli.fronting import certificate_of, serve_public
from codehub.cli.isolation import described
from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.cli.serving import application, serve_with_events
from codehub.config import ServerConfig, Settings
from codehub.coordinator.run import Coordinator, Infrastructure, open_coordinator
from codehub.db import census, migrate
from codehub.db.pool import API_TIMEOUTS, Pool, Role, connection, open_pool
from codehub.db.pool import ping as ping_database
from codehub.dependencies import Checks, Dependency
from codehub.drivers.load import Drivers, open_drivers
from codehub.embedded.datadir import DataDir
from codehub.embedded.servers import EmbeddedServers
from codehub.errors import StartError, Unavailable
from codehub.metrics import Metrics
from codehub.model.workspace import Phase
from codehub.services.doctor.room import store_folders
from codehub.signals.connect import open_redis
from codehub.signals.connect import ping as ping_redis
from codehub.web.context import Context
from codehub.web.health import look_at
from codehub.web.hosts import Hosts
from codehub.web.server import listen, listen_beside, listen_unix, local_url

log = structlog.get_logger(__name__)

FIRST_TERM_SECONDS = 5.0
LAST_LOOK_SECONDS = 1.0
FIRST_IDE_SECONDS = 120.0  # then it goes on beside everything else


def run(settings: Settings) -> None:
    """Run until stopped. Raises StartError when it cannot start, Unavailable when a server of its own keeps dying."""
    run_until_stopped(lambda: _up(settings), settings.tracing)


async def _up(settings: Settings) -> None:
    path = data_dir_of(settings.server.data_dir)
    with (
        contextlib.closing(_listen(settings.server, path)) as listener,
        DataDir.open(path) as data_dir,
    ):
        certificate_of(settings)  # one that cannot be used is told at once
        async with (
            open_drivers(settings, data_dir.path) as drivers,
            _dependencies(settings, data_dir, drivers) as dependencies,
            _first_ide(settings, data_dir),
        ):
            accounts = settings.accounts
            browser = {"browser": [Hosts(accounts.workspace_host, accounts.public_url).description]}
            for line in described({**drivers.isolation(), **browser}, await look_at(drivers.checks)):
                say(line)
            await _serve(dependencies, listener, data_dir)


def _listen(server: ServerConfig, data_dir: Path) -> socket.socket:
    """Whoever started it twice is told where the first one is, not that a port is in use."""
    try:
        return listen(server.host, server.port)
    except StartError:
        if running_url(data_dir) is not None:
            DataDir.open(data_dir).close()  # says so
        raise


@dataclass(frozen=True, slots=True)
class _Dependencies:
    checks: Checks
    drivers: Drivers
    coordinator: Coordinator
    context: Context
    metrics: Metrics
    keep_servers: Callable[[], "asyncio.Future[None]"]
    database_url: str
    redis_url: str


@contextlib.asynccontextmanager
async def _dependencies(settings: Settings, data_dir: DataDir, drivers: Drivers) -> AsyncIterator[_Dependencies]:
    external_database, external_redis = _url(settings.database.url), _url(settings.redis.url)
    embedded = EmbeddedServers(
        data_dir,
        server_user=settings.server.embedded_user,
        postgres=external_database is None,
        valkey=external_redis is None,
        progress=say,
    )
    async with embedded.running() as servers:
        database_url = external_database or servers.database_url
        redis_url = external_redis or servers.redis_url
        assert database_url is not None
        assert redis_url is not None
        say("Preparing the database …")
        await _migrate(database_url)
        infrastructure = Infrastructure(drivers.archives, drivers.backends, drivers.resources)
        metrics = Metrics()
        async with (
            open_pool(database_url, Role.API, max_size=settings.database.pool_size, timeouts=API_TIMEOUTS) as pool,
            open_redis(redis_url) as redis,
            open_coordinator(settings, infrastructure, database_url, redis_url, metrics.registry) as coordinator,
        ):
            checks: Checks = {
                Dependency.POSTGRESQL: lambda: ping_database(pool),
                Dependency.REDIS: lambda: ping_redis(redis),
                Dependency.COORDINATOR: coordinator.check,
                **drivers.checks,
            }
            folders = [data_dir.path, *store_folders(settings.store.url)]
            context = Context(settings, pool, redis, drivers.images, drivers.default_backend, folders)
            yield _Dependencies(
                checks,
                drivers,
                coordinator,
                context,
                metrics,
                lambda: asyncio.ensure_future(servers.keep()),
                database_url,
                redis_url,
            )


@contextlib.asynccontextmanager
async def _first_ide(settings: Settings, data_dir: DataDir) -> AsyncIterator[None]:
    """Goes on when it is there, or has failed, or takes too long; then it is installed beside everything else."""
    installing = asyncio.create_task(ide.install_first(settings, data_dir.path, say))
    try:
        done, _ = await asyncio.wait({installing}, timeout=FIRST_IDE_SECONDS)
        if not done:
            say("This takes long; CodeHub starts meanwhile.")
        for task in done:
            task.result()
        yield
    finally:
        installing.cancel()
        await asyncio.gather(installing, return_exceptions=True)


async def _migrate(database_url: str) -> None:
    """Migrate in a thread. A stop is heard between two steps; one that has begun is finished or rolled back first."""
    stop = threading.Event()
    work = asyncio.create_task(asyncio.to_thread(migrate.upgrade, database_url, stop=stop))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({work})
        raise


async def _serve(dependencies: _Dependencies, listener: socket.socket, data_dir: DataDir) -> None:
    """The public port is the proxy's; the API is behind it, on a socket that nobody else can open."""
    is_tls = dependencies.context.settings.server.tls_cert is not None
    app = application(dependencies.checks, dependencies.context, dependencies.drivers.isolation, dependencies.metrics)
    api = data_dir.web / "api.sock"
    beside = listen_beside(listener)
    url = local_url(listener, beside, is_tls=is_tls)
    data_dir.publish_url(url)
    listeners = [listener] if beside is None else [listener, beside]
    behind = listen_unix(api)
    public = serve_public(
        dependencies.context.settings,
        listeners,
        [f"unix:{api}"],
        dependencies.database_url,
        dependencies.redis_url,
        registry=dependencies.metrics.registry,
    )
    parts = {
        asyncio.create_task(serve_with_events(app, behind), name="http"),
        asyncio.create_task(public, name="proxy"),
        asyncio.create_task(dependencies.coordinator.run(), name="coordinator"),
        dependencies.keep_servers(),
    }
    announcing = asyncio.create_task(_announce(dependencies, url, data_dir), name="announcement")
    try:
        done, _ = await asyncio.wait({*parts, announcing}, return_when=asyncio.FIRST_COMPLETED)
        if done == {announcing}:
            announcing.result()
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (*parts, announcing):
            task.cancel()
        await asyncio.gather(*parts, announcing, return_exceptions=True)
        await _say_what_goes_on(dependencies.context.pool)
        behind.close()
        api.unlink(missing_ok=True)


async def _say_what_goes_on(pool: Pool) -> None:
    """Nobody should be surprised by what still runs; not knowing holds up no stop."""
    with contextlib.suppress(Unavailable, TimeoutError):
        async with asyncio.timeout(LAST_LOOK_SECONDS), connection(pool) as conn:
            running = (await census.count(conn)).phases.get(Phase.RUNNING, 0)
        if running:
            goes, them = ("1 workspace goes", "it") if running == 1 else (f"{running} workspaces go", "them")
            say(f"{goes} on running; the next start finds {them}. To end {them}, stop {them} before CodeHub.")


async def _coordinating(coordinator: Coordinator) -> None:
    """Who follows the URL finds everything at work; where that takes long, /readyz says so meanwhile."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIRST_TERM_SECONDS):
            while True:
                with contextlib.suppress(Unavailable):
                    await coordinator.check()
                    return
                await asyncio.sleep(0.05)


async def _announce(dependencies: _Dependencies, url: str, data_dir: DataDir) -> None:
    """As soon as one can log in; a database that is slow to tell who can is waited for."""
    await _coordinating(dependencies.coordinator)
    admin = await first_admin.make(dependencies.context)
    say(f"\nCodeHub {__version__} is running.\n")
    say(f"    URL   {url}\n    Data  {data_dir.path}\n    Stop  Ctrl-C\n")
    first_admin.introduce(admin)
    log.info("codehub is running", url=url)


def _url(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None
