"""`codehub up`: everything on one machine, in one process, with servers of its own.

Order of start: the port (a port in use costs nothing), the data directory with the log file in it, then the steps that
people see: the database and, beside it, what a first start installs; the self-check; HTTP. Stopping goes the other way,
on Ctrl-C or SIGTERM, at any moment of the start too. What is left behind is data and the workspaces that run, which the
next start finds again.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from pydantic import SecretStr

from codehub import logs
from codehub.cli import browser, first_admin, first_start, relocating, terminal
from codehub.cli.checks.machine import data_dir_of, running_url
from codehub.cli.fronting import certificate_of, serve_public
from codehub.cli.isolation import warnings
from codehub.cli.relocating import Relocation
from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.cli.serving import application, serve_with_events
from codehub.cli.startup import Startup
from codehub.cli.welcome import Welcome
from codehub.config import ServerConfig, Settings
from codehub.coordinator.run import Coordinator, Infrastructure, open_coordinator
from codehub.db import census, migrate
from codehub.db.pool import API_TIMEOUTS, Pool, Role, connection, open_pool
from codehub.db.pool import ping as ping_database
from codehub.dependencies import Checks, Dependency
from codehub.drivers.load import Drivers, open_drivers
from codehub.embedded import accounts, postgres, valkey
from codehub.embedded.datadir import NEEDED_BYTES, OTHER_FOLDER, DataDir
from codehub.embedded.process import uninterrupted
from codehub.embedded.servers import EmbeddedServers
from codehub.errors import StartError, Unavailable
from codehub.metrics import Metrics
from codehub.model.workspace import Phase
from codehub.services import login_links
from codehub.services.doctor.room import store_folders
from codehub.signals.connect import open_redis
from codehub.signals.connect import ping as ping_redis
from codehub.signals.login_links import RedisLoginLinks
from codehub.web.context import Context
from codehub.web.health import look_at
from codehub.web.server import is_localhost, listen, listen_beside, listen_unix, local_url, login_base

log = structlog.get_logger(__name__)

FIRST_TERM_SECONDS = 5.0
LAST_LOOK_SECONDS = 1.0
FIRST_START_BYTES = 160 << 20  # the servers' programs and an empty database


def run(settings: Settings, *, open_browser: bool = False, relocation: Relocation | None = None) -> None:
    """Run until stopped. Raises StartError when it cannot start, Unavailable when a server of its own keeps dying."""
    path = data_dir_of(settings.server.data_dir)
    relocation = relocation or relocating.ask(settings, path)
    run_until_stopped(lambda: _up(settings, path, relocation, open_browser=open_browser), settings.tracing)


async def _up(settings: Settings, path: Path, relocation: Relocation | None, *, open_browser: bool) -> None:
    with (
        Startup() as startup,
        contextlib.closing(_listen(settings.server, path)) as listener,
        _data_directory(settings, path, relocation) as data_dir,
    ):
        certificate_of(settings)  # one that cannot be used is told at once
        async with (
            first_start.installing(settings, data_dir.path, startup) as first,
            _servers(settings, data_dir, startup) as servers,
        ):
            await first.sandbox  # what the driver of processes looks for when it is opened
            async with (
                open_drivers(settings, data_dir.path) as drivers,
                _dependencies(settings, data_dir, drivers, servers) as dependencies,
            ):
                await first.wait_for_ide()
                await _self_check(drivers, startup)
                await _serve(dependencies, listener, data_dir, _Arrival(startup, open_browser))


def _listen(server: ServerConfig, data_dir: Path) -> socket.socket:
    """Whoever started it twice is told where the first one is, not that a port is in use."""
    try:
        return listen(server.host, server.port)
    except StartError:
        if running_url(data_dir) is not None:
            DataDir.open(data_dir).close()  # says so
        raise


@contextlib.contextmanager
def _data_directory(settings: Settings, path: Path, relocation: Relocation | None) -> Iterator[DataDir]:
    """Opened, with everything that is logged in a file of it."""
    with DataDir.open(path) as data_dir:
        try:
            logs.open_file(settings.log, _log_file(data_dir))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"The log {_log_file(data_dir)} cannot be written: {reason}.", OTHER_FOLDER) from error
        _check_room(data_dir, is_first=settings.database.url is None and not (data_dir.path / "postgres").exists())
        relocating.check(settings, data_dir, relocation)
        yield data_dir


def _log_file(data_dir: DataDir) -> Path:
    return data_dir.logs / logs.FILE


def _check_room(data_dir: DataDir, *, is_first: bool) -> None:
    """A server that runs out of room on its way stops in the middle of things."""
    needed = FIRST_START_BYTES if is_first else NEEDED_BYTES
    if data_dir.free_bytes() < needed:
        told = data_dir.no_room(needed)
        raise StartError(f"{told[0].upper()}{told[1:]}.", "Make room, or choose another folder with CODEHUB_DATA_DIR.")


@dataclass(frozen=True, slots=True)
class _Servers:
    database_url: str
    redis_url: str
    keep: Callable[[], "asyncio.Future[None]"]
    check: Callable[[str], None]  # of our own, by name: why it is down, while it is


@contextlib.asynccontextmanager
async def _servers(settings: Settings, data_dir: DataDir, startup: Startup) -> AsyncIterator[_Servers]:
    """PostgreSQL, migrated, and Redis: those that the settings name, or our own."""
    external_database, external_redis = _url(settings.database.url), _url(settings.redis.url)
    async with contextlib.AsyncExitStack() as stack:
        with startup.step("Database") as step:

            def progress(text: str) -> None:
                step.detail(text)
                startup.note(text)  # worth a line only after the start

            if None in (external_database, external_redis):
                await _provide_account(settings.server.embedded_user, progress, startup)
            embedded = EmbeddedServers(
                data_dir,
                server_user=settings.server.embedded_user,
                postgres=external_database is None,
                valkey=external_redis is None,
                progress=progress,
                warn=startup.warn,
            )
            servers = await stack.enter_async_context(embedded.running())
            database_url = external_database or servers.database_url
            redis_url = external_redis or servers.redis_url
            assert database_url is not None
            assert redis_url is not None
            step.detail("preparing the schema")
            await _migrate(database_url)
        yield _Servers(database_url, redis_url, lambda: asyncio.ensure_future(servers.keep()), servers.check)


async def _provide_account(wanted: str | None, progress: Callable[[str], None], startup: Startup) -> None:
    if not await uninterrupted(asyncio.to_thread(accounts.provide, wanted, progress)):
        startup.warn(accounts.NOT_OWN)


@dataclass(frozen=True, slots=True)
class _Dependencies:
    checks: Checks
    drivers: Drivers
    coordinator: Coordinator
    context: Context
    metrics: Metrics
    servers: _Servers


@contextlib.asynccontextmanager
async def _dependencies(
    settings: Settings, data_dir: DataDir, drivers: Drivers, servers: _Servers
) -> AsyncIterator[_Dependencies]:
    database_url, redis_url = servers.database_url, servers.redis_url
    infrastructure = Infrastructure(drivers.archives, drivers.backends, drivers.resources)
    metrics = Metrics()
    async with (
        open_pool(database_url, Role.API, max_size=settings.database.pool_size, timeouts=API_TIMEOUTS) as pool,
        open_redis(redis_url) as redis,
        open_coordinator(settings, infrastructure, database_url, redis_url, metrics.registry) as coordinator,
    ):

        async def check_database() -> None:
            servers.check(postgres.NAME)  # knows more than that nobody answers
            await ping_database(pool)

        async def check_redis() -> None:
            servers.check(valkey.NAME)
            await ping_redis(redis)

        checks: Checks = {
            Dependency.POSTGRESQL: check_database,
            Dependency.REDIS: check_redis,
            Dependency.COORDINATOR: coordinator.check,
            **drivers.checks,
        }
        folders = [data_dir.path, *store_folders(settings.store.url)]
        context = Context(settings, pool, redis, drivers.images, drivers.default_backend, folders)
        yield _Dependencies(checks, drivers, coordinator, context, metrics, servers)


async def _self_check(drivers: Drivers, startup: Startup) -> None:
    """A workspace must be able to live here. Weaknesses are warnings: /readyz and `codehub doctor` have the details."""
    with startup.step("Self-check"):
        if drivers.self_check is not None:
            await drivers.self_check.ensure()
        states = await look_at(drivers.checks)
    isolation = drivers.isolation()
    for name, lines in isolation.items():
        log.info("isolation of workspaces", backend=name, lines=list(lines))
    for line in warnings(isolation, states):
        startup.warn(line)


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


async def _serve(dependencies: _Dependencies, listener: socket.socket, data_dir: DataDir, arrival: "_Arrival") -> None:
    """The public port is the proxy's; the API is behind it, on a socket that nobody else can open."""
    is_tls = dependencies.context.settings.server.tls_cert is not None
    api = data_dir.web / "api.sock"
    beside = listen_beside(listener)
    is_sure = is_localhost(listener, beside)
    context = replace(dependencies.context, to_localhost=is_sure)
    app = application(dependencies.checks, context, dependencies.drivers.isolation, dependencies.metrics)
    url = local_url(listener, beside, is_tls=is_tls)
    base = login_base(listener, url, is_sure=is_sure)
    data_dir.publish_url(url, base)
    listeners = [listener] if beside is None else [listener, beside]
    behind = listen_unix(api)
    public = serve_public(
        dependencies.context.settings,
        listeners,
        [f"unix:{api}"],
        dependencies.servers.database_url,
        dependencies.servers.redis_url,
        to_localhost=is_sure,
        registry=dependencies.metrics.registry,
    )
    parts = {
        asyncio.create_task(serve_with_events(app, behind), name="http"),
        asyncio.create_task(public, name="proxy"),
        asyncio.create_task(dependencies.coordinator.run(), name="coordinator"),
        dependencies.servers.keep(),
    }
    announcing = asyncio.create_task(arrival.announce(dependencies, url, base, data_dir), name="announcement")
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
        browser.forget(data_dir.web)


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


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The end of a start: what people are told, and their browser."""

    startup: Startup
    open_browser: bool

    async def announce(self, dependencies: _Dependencies, url: str, base: str | None, data_dir: DataDir) -> None:
        """As soon as one can log in; a database that is slow to tell who can is waited for."""
        context = dependencies.context
        with self.startup.step("Web server"):
            await _coordinating(dependencies.coordinator)
            admin = await first_admin.make(context, data_dir.path)
        is_seen = terminal.is_watched()  # elsewhere it would stand in a journal, for whoever reads that
        try:
            login_url = await _login_url(context, base) if is_seen or self.open_browser else None
        except asyncio.CancelledError:
            first_admin.introduce(admin, data_dir.path)  # nobody could learn the password later
            raise
        self.startup.finish()
        public_url = context.settings.accounts.public_url
        shown = login_url if is_seen else None
        kept = first_admin.keep_password(admin, data_dir.path)
        log_file, has_links = _log_file(data_dir), base is not None
        welcome = Welcome(url, data_dir.path, log_file, admin, kept, shown, has_links, public_url)
        say("\n" + "\n".join(welcome.lines()))
        log.info("codehub is running", url=url)
        if self.open_browser:
            await browser.open_page(login_url or url, data_dir.web, say)


async def _login_url(context: Context, base: str | None) -> str | None:
    """None where there can be no link, or while Redis does not answer: `codehub login-link` makes one later."""
    if base is None:
        return None
    with contextlib.suppress(Unavailable):
        link = await login_links.issue(context.pool, RedisLoginLinks(context.redis))
        return None if link is None else link.url(base)
    return None


def _url(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None
