"""`codehub coordinator`: one more coordinator for an installation whose servers run elsewhere.

Any number of them may run: one leads, the others stand by and take over within seconds of its end.
"""

from codehub.cli.running import run as run_until_stopped
from codehub.cli.running import say
from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db import migrate
from codehub.drivers.load import open_drivers
from codehub.embedded.datadir import default_data_dir
from codehub.errors import StartError


def run(settings: Settings) -> None:
    """Run until stopped. Raises StartError when it cannot start."""
    database, redis = settings.database.url, settings.redis.url
    if database is None or redis is None:
        missing = "DATABASE_URL" if database is None else "REDIS_URL"
        raise StartError(
            f"{missing} is not set.", "Set it; with servers of its own CodeHub is started by `codehub up`."
        )
    database_url, redis_url = database.get_secret_value(), redis.get_secret_value()
    migrate.require_newest(database_url)

    async def coordinate() -> None:
        data_dir = settings.server.data_dir or default_data_dir()
        async with open_drivers(settings, data_dir) as drivers:
            infrastructure = Infrastructure(drivers.archives, drivers.backends, drivers.resources)
            async with open_coordinator(settings, infrastructure, database_url, redis_url) as coordinator:
                say("The coordinator is running. Stop it with Ctrl-C.")
                await coordinator.run()

    run_until_stopped(coordinate)
