"""The first administrator, made by whichever process starts first on an empty database, and shown once."""

import asyncio

from codehub.cli.running import say
from codehub.services.accounts import FirstAdmin, first_admin
from codehub.web.context import Context


async def make(context: Context) -> FirstAdmin | None:
    """A stop meanwhile waits for it: a password that was made is shown, as nobody could learn it later."""
    making = asyncio.create_task(first_admin(context.pool, context.settings.accounts))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        await asyncio.wait({making})
        if not making.cancelled() and making.exception() is None:
            introduce(making.result())
        raise


def introduce(admin: FirstAdmin | None) -> None:
    if admin is not None:  # made in this start; the password is never shown again, and never logged
        generated = f"{admin.password}\n    It is not shown again."
        shown = "as in CODEHUB_ADMIN_PASSWORD" if admin.password is None else generated
        say(f"    Log in as     {admin.username}\n    Password      {shown}\n")
