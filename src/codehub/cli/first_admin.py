"""The first administrator, made by whichever process starts first on an empty database, and shown once."""

import asyncio

from codehub.cli.running import say
from codehub.cli.welcome import credentials
from codehub.errors import Unavailable
from codehub.services.accounts import FirstAdmin, FirstAdminMaking
from codehub.together import finished
from codehub.web.context import Context

_AGAIN_SECONDS = 1.0


async def make(context: Context) -> FirstAdmin | None:
    """None where there is one. A database that does not answer in time is asked again, for as long as it takes."""
    making = FirstAdminMaking(context.pool, context.settings.accounts)
    is_told = False
    while True:
        try:
            return await _attempt(making)
        except Unavailable as error:
            if not is_told:
                say(f"Is there an administrator? {error.message} Trying again.")
            is_told = True
        await asyncio.sleep(_AGAIN_SECONDS)


async def _attempt(making: FirstAdminMaking) -> FirstAdmin | None:
    """A stop meanwhile waits for it: a password that was made is shown, as nobody could learn it later."""
    trying = asyncio.create_task(making.attempt())
    try:
        return await asyncio.shield(trying)
    except asyncio.CancelledError:
        try:
            await finished(trying)
        finally:
            if not trying.cancelled() and trying.exception() is None:
                introduce(trying.result())
        raise


def introduce(admin: FirstAdmin | None) -> None:
    """Where there is no box to show it in."""
    if admin is not None:  # made in this start
        for name, value in credentials(admin):
            say(f"   {name:<11}{value}")
