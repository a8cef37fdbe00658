"""The self-check of `codehub up` and `codehub coordinator`: nothing is announced under which nothing works."""

from collections.abc import Callable

from codehub.drivers.load import Drivers
from codehub.errors import Unreachable


async def ensure(drivers: Drivers, warn: Callable[[str], None]) -> None:
    """Raises StartError with what does not work. A store that is out, or a full disk, is waited for like any outage."""
    if drivers.self_check is None:
        return
    try:
        await drivers.self_check.ensure()
    except Unreachable as error:
        warn(f"The self-check has not passed yet: {error}")
