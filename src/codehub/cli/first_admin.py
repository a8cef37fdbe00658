"""The first administrator, made by whichever process starts first on an empty database, and shown once."""

import asyncio
import os
from pathlib import Path

from codehub.cli import terminal
from codehub.cli.running import say
from codehub.cli.welcome import Kept, credentials
from codehub.errors import Unavailable
from codehub.services.accounts import FirstAdmin, FirstAdminMaking
from codehub.together import finished
from codehub.web.context import Context

KEPT_IN = "first-password"  # in the data directory
_AGAIN_SECONDS = 1.0


async def make(context: Context, folder: Path) -> FirstAdmin | None:
    """None where there is one. A database that does not answer in time is asked again, for as long as it takes."""
    making = FirstAdminMaking(context.pool, context.settings.accounts)
    is_told = False
    while True:
        try:
            return await _attempt(making, folder)
        except Unavailable as error:
            if not is_told:
                say(f"Is there an administrator? {error.message} Trying again.")
            is_told = True
        await asyncio.sleep(_AGAIN_SECONDS)


async def _attempt(making: FirstAdminMaking, folder: Path) -> FirstAdmin | None:
    """A stop meanwhile waits for it: a password that was made is shown, as nobody could learn it later."""
    trying = asyncio.create_task(making.attempt())
    try:
        return await asyncio.shield(trying)
    except asyncio.CancelledError:
        try:
            await finished(trying)
        finally:
            if not trying.cancelled() and trying.exception() is None:
                introduce(trying.result(), folder)
        raise


def introduce(admin: FirstAdmin | None, folder: Path) -> None:
    """Where there is no box to show it in."""
    if admin is not None:  # made in this start
        for name, value in credentials(admin, keep_password(admin, folder)):
            say(f"   {name:<11}{value}")


def keep_password(admin: FirstAdmin | None, folder: Path) -> Path | Kept:
    """In a file for this user alone, where output goes to a journal or a container's log; at a terminal it is shown."""
    if admin is None or admin.password is None or terminal.is_watched():
        return Kept.SHOWN
    path = folder / KEPT_IN
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{admin.password}\n")
    except OSError as error:
        say(f"The first password cannot be written to {path}: {error.strerror}.")
        return Kept.NOWHERE
    return path
