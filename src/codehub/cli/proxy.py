"""`codehub proxy`: the public port as a process of its own, for an installation whose servers run elsewhere.

Any number of them may run, on one machine and one port too: the kernel shares the connections out among them. It needs
no more of the database than the role codehub_proxy has, and starts also while the database or the API is away.
"""

import contextlib

from codehub.cli.fronting import certificate_of, serve_public
from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.config import Settings
from codehub.errors import StartError
from codehub.web.server import listen, url_of


def run(settings: Settings) -> None:
    """Run until stopped. Raises StartError when it cannot start."""
    database, redis, apis = settings.database.url, settings.redis.url, settings.proxy.api
    for name, value in (("DATABASE_URL", database), ("REDIS_URL", redis), ("CODEHUB_API_URL", apis or None)):
        if value is None:
            raise StartError(f"{name} is not set.", "Set it; on one machine `codehub up` does everything by itself.")
    assert database is not None
    assert redis is not None
    database_url, redis_url = database.get_secret_value(), redis.get_secret_value()

    async def serve_proxy() -> None:
        with contextlib.closing(listen(settings.server.host, settings.server.port, shared=True)) as listener:
            url = url_of(listener, is_tls=certificate_of(settings) is not None)
            say(f"The proxy is running at {url}. Stop it with Ctrl-C.")
            await serve_public(settings, [listener], apis, database_url, redis_url)

    run_until_stopped(serve_proxy, settings.tracing)
