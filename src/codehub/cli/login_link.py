"""`codehub login-link`: a new one-time link, on the machine where `codehub up` runs and as the same user.

Whoever can run it can read the data directory's secrets, and so could set a password, too.
"""

import asyncio
import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from codehub.cli import options, output
from codehub.cli.exits import CommandError

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.services.login_links import LoginLink


def login_link(json: options.Json = False) -> None:
    """Print a link that logs the administrator in, once, on this machine.

    It works while `codehub up` runs, for ten minutes, in a browser on this machine.
    """
    from codehub import logs
    from codehub.cli.checks.machine import data_dir_of
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    folder = data_dir_of(settings.server.data_dir)
    base = _base(folder)
    link = asyncio.run(_issue(settings, folder))
    if link is None:
        raise CommandError("No administrator has a password.", "Log in with your organisation's account.")
    if json:
        output.print_json({"url": link.url(base), "username": link.username})
    else:
        typer.echo(link.url(base))


def _base(folder: Path) -> str:
    from codehub.cli.checks.machine import running_url

    if running_url(folder) is None:
        raise CommandError(f"No CodeHub runs on {folder}.", "Start it (codehub up), or set CODEHUB_DATA_DIR.")
    try:
        base = jsons.loads((folder / "lock").read_text())["login_base"]
    except (OSError, ValueError, KeyError, TypeError):
        raise CommandError("CodeHub is still starting.", "Try again in a moment.") from None
    if not base:
        raise CommandError(
            "There are no login links: CodeHub is starting, or listens on no address of this machine alone.",
            "Try again in a moment, or log in with your password.",
        )
    return str(base)


async def _issue(settings: "Settings", folder: Path) -> "LoginLink | None":
    from codehub.db.pool import Role, open_pool
    from codehub.embedded import postgres, valkey
    from codehub.services import login_links
    from codehub.signals.connect import open_redis
    from codehub.signals.login_links import RedisLoginLinks

    database, redis = settings.database.url, settings.redis.url
    database_url = postgres.url_at(folder) if database is None else database.get_secret_value()
    redis_url = valkey.url_at(folder) if redis is None else redis.get_secret_value()
    async with open_pool(database_url, Role.API, max_size=1) as pool, open_redis(redis_url) as client:
        return await login_links.issue(pool, RedisLoginLinks(client))
