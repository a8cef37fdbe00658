"""What serves streams stops, whatever its connection to Redis does with a cancellation."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import cast

from codehub.services.live import LiveWorkspaces
from codehub.signals.subscriptions import Told
from codehub.web.live import Hub


async def deaf(listening: asyncio.Event) -> AsyncGenerator[Told | None, None]:
    """Loses the first cancellation, as redis-py does while it connects."""
    yield None
    listening.set()
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def test_a_hub_ends_although_a_cancellation_gets_lost() -> None:
    listening = asyncio.Event()
    hub = Hub(cast("LiveWorkspaces", None), lambda: deaf(listening))  # nobody listens: nothing is read
    running = asyncio.create_task(hub.run())
    await asyncio.wait_for(listening.wait(), 10)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=10)
    running.cancel()
    assert done == {running}
    assert running.cancelled()
