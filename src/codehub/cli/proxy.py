"""`codehub proxy`: the public port as a process of its own, for an installation whose servers run elsewhere.

Any number of them may run, on one machine and one port too: the kernel shares the connections out among them. It needs
no more of the database than the role codehub_proxy has, and starts also while the database or the API is away. With
CODEHUB_HEALTH_PORT it says whether it takes requests: /healthz, /readyz, /metrics. It is ready once its own login has
worked, so that nobody who waits for that takes the proxies before it away too early.
"""

import contextlib

from codehub.cli.coordinator import health_listener
from codehub.cli.fronting import certificate_of, serve_public
from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.config import Settings
from codehub.db.pool import API_TIMEOUTS, Role, open_pool, ping
from codehub.dependencies import Dependency
from codehub.errors import StartError, Unavailable
from codehub.metrics import Metrics
from codehub.together import together
from codehub.web.app import create_app
from codehub.web.draining import Draining
from codehub.web.health import once
from codehub.web.server import listen, serve, url_of


def run(settings: Settings) -> None:
    """Run until stopped. Raises StartError when it cannot start."""
    database, redis, apis = settings.database.url, settings.redis.url, settings.proxy.api
    for name, value in (("DATABASE_URL", database), ("REDIS_URL", redis), ("CODEHUB_API_URL", apis or None)):
        if value is None:
            raise StartError(f"{name} is not set.", "Set it; on one machine `codehub up` does everything by itself.")
    assert database is not None
    assert redis is not None
    database_url, redis_url = database.get_secret_value(), redis.get_secret_value()
    draining = Draining(settings.server.drain_delay)

    async def serve_proxy() -> None:
        with (
            contextlib.closing(listen(settings.server.host, settings.server.port, shared=True)) as listener,
            health_listener(settings) as health,
        ):
            url = url_of(listener, is_tls=certificate_of(settings) is not None)
            say(f"The proxy is running at {url}. Stop it with Ctrl-C.")
            metrics = Metrics()
            public = serve_public(settings, [listener], apis, database_url, redis_url, registry=metrics.registry)
            parts = {"proxy": public}
            if health is not None:
                # Later nothing it needs counts: whom it knows it lets in without, to others it says what is missing.
                checks = {Dependency.POSTGRESQL: once(lambda: _reach(database_url))}
                parts["health"] = serve(create_app(checks, metrics, draining=draining, settings=settings), health)
                say(f"Its health is at {url_of(health)}readyz.")
            await together(parts)

    run_until_stopped(serve_proxy, settings.tracing, draining)


async def _reach(database_url: str) -> None:
    try:
        async with open_pool(database_url, Role.PROXY, max_size=1, timeouts=API_TIMEOUTS) as pool:
            await ping(pool)
    except Unavailable as error:
        raise Unavailable(
            "The database was never reached with this proxy's DATABASE_URL.",
            "Its login is made by `codehub migrate`, from PROXY_DATABASE_URL.",
        ) from error
