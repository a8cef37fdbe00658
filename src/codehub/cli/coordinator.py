"""`codehub coordinator`: one more coordinator for an installation whose servers run elsewhere.

Any number of them may run: one leads, the others stand by and take over within seconds of its end. With
CODEHUB_HEALTH_PORT it says how it is: /healthz, /readyz, /metrics.
"""

import contextlib
import socket

from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db import migrate
from codehub.dependencies import Dependency
from codehub.drivers.load import open_drivers
from codehub.embedded.datadir import default_data_dir
from codehub.errors import StartError
from codehub.metrics import Metrics
from codehub.together import together
from codehub.web.app import create_app
from codehub.web.server import listen, serve, url_of


def run(settings: Settings) -> None:
    """Run until stopped. Raises StartError when it cannot start."""
    database_url, redis_url = servers_of(settings)
    migrate.require_newest(database_url)

    async def coordinate() -> None:
        data_dir = (settings.server.data_dir or default_data_dir()).resolve()
        metrics = Metrics()
        with health_listener(settings) as listener:
            async with open_drivers(settings, data_dir) as drivers:
                if drivers.self_check is not None:
                    await drivers.self_check.ensure()
                    say(drivers.self_check.sentence())
                infrastructure = Infrastructure(drivers.archives, drivers.backends, drivers.resources)
                opened = open_coordinator(settings, infrastructure, database_url, redis_url, metrics.registry)
                async with opened as coordinator:
                    app = create_app(
                        {Dependency.COORDINATOR: coordinator.check, **drivers.checks},
                        metrics,
                        drivers.isolation,
                        settings=settings,
                    )
                    parts = {"coordinator": coordinator.run()}
                    if listener is not None:
                        parts["health"] = serve(app, listener)
                        say(f"Its health is at {url_of(listener)}readyz.")
                    say("The coordinator is running. Stop it with Ctrl-C.")
                    await together(parts)

    run_until_stopped(coordinate, settings.tracing)


def health_listener(settings: Settings) -> contextlib.AbstractContextManager[socket.socket | None]:
    """Where a process that serves no people says how it is, if that was asked for."""
    if settings.server.health_port is None:
        return contextlib.nullcontext()
    return contextlib.closing(listen(settings.server.health_host, settings.server.health_port))


def servers_of(settings: Settings) -> tuple[str, str]:
    """The URLs of PostgreSQL and Redis, for a part that has none of its own. Raises StartError."""
    database, redis = settings.database.url, settings.redis.url
    if database is None or redis is None:
        missing = "DATABASE_URL" if database is None else "REDIS_URL"
        raise StartError(
            f"{missing} is not set.", "Set it; with servers of its own CodeHub is started by `codehub up`."
        )
    return database.get_secret_value(), redis.get_secret_value()
