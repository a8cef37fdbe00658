"""`codehub api`: one more API process for an installation whose servers run elsewhere.

Any number of them may run behind a load balancer; they have no access to the infrastructure. Workspaces are moved by
`codehub coordinator`. With CODEHUB_HEALTH_PORT its metrics are at a port of their own.

Its port is taken at once, but connections are refused until it is known that there is an administrator: whoever shares
requests out goes to another API, where one that was taken and not answered would hang.
"""

import asyncio
import contextlib

from codehub.cli import first_admin
from codehub.cli.coordinator import health_listener, servers_of
from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.cli.serving import application, serve_with_events
from codehub.config import Settings
from codehub.db import migrate
from codehub.db.pool import API_TIMEOUTS, Role, open_pool
from codehub.db.pool import ping as ping_database
from codehub.dependencies import Checks, Dependency
from codehub.drivers import images
from codehub.embedded.datadir import default_data_dir
from codehub.errors import StartError, Unavailable
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.doctor.room import store_folders
from codehub.signals.connect import open_redis
from codehub.signals.connect import ping as ping_redis
from codehub.together import together
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.draining import Draining
from codehub.web.server import bind, serve, start_listening, url_of


def run(settings: Settings) -> None:
    """Run until stopped. Raises StartError when it cannot start."""
    database_url, redis_url = servers_of(settings)
    allowed = offered(settings)
    draining = Draining(settings.server.drain_delay)

    async def serve_api() -> None:
        with (
            contextlib.closing(bind(settings.server.host, settings.server.port)) as listener,
            health_listener(settings) as health,
        ):
            migrate.require_newest(database_url)
            async with (
                open_pool(database_url, Role.API, max_size=settings.database.pool_size, timeouts=API_TIMEOUTS) as pool,
                open_redis(redis_url) as connection,
            ):
                first, folders = InstanceBackend(settings.backends.first), store_folders(settings.store.url)
                context = Context(settings, pool, connection, lambda: allowed, first, folders)
                checks: Checks = {
                    Dependency.POSTGRESQL: lambda: ping_database(pool),
                    Dependency.REDIS: lambda: ping_redis(connection),
                }
                metrics = Metrics()
                app = application(checks, context, metrics=metrics, draining=draining)
                is_open = asyncio.Event()

                async def serve_people() -> None:
                    folder = (settings.server.data_dir or default_data_dir()).resolve()
                    admin = await first_admin.make(context, folder)
                    try:
                        start_listening(listener)
                        is_open.set()
                        say(f"The API is running at {url_of(listener)}. Stop it with Ctrl-C.")
                    finally:
                        first_admin.introduce(admin, folder)
                    await serve_with_events(app, listener)

                async def administrator() -> None:
                    if not is_open.is_set():
                        raise Unavailable("It is not known yet whether there is one.", "Is the database slow?")

                parts = {"api": serve_people()}
                if health is not None:
                    told = {**checks, Dependency.ADMINISTRATOR: administrator}
                    about = create_app(told, metrics, draining=draining, settings=settings)
                    parts["health"] = serve(about, health)
                    say(f"Its health is at {url_of(health)}readyz.")
                try:
                    await together(parts)
                except BaseExceptionGroup as group:
                    for error in group.exceptions:
                        if isinstance(error, StartError):  # one line for whoever started it
                            raise error from group
                    raise

    run_until_stopped(serve_api, settings.tracing, draining)


def offered(settings: Settings) -> dict[InstanceBackend, list[str]]:
    """What the settings allow: whether it is installed where workspaces run, only a coordinator could say."""
    entries = settings.backends.image_of
    return {each: images.offered(entries, each) for each in map(InstanceBackend, settings.backends.enabled)}
