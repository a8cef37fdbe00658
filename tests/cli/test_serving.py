"""What serves streams stops, whatever its connection to Redis does with a cancellation, and says how it does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import cast

from prometheus_client import CollectorRegistry

from codehub.services.live import LiveWorkspaces
from codehub.signals.subscriptions import Told
from codehub.web.hub_measures import HubCollector
from codehub.web.live import Hub, HubStatus


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


async def test_its_figures_are_told_as_they_are_at_the_time() -> None:
    registry = CollectorRegistry()
    hub = Hub(cast("LiveWorkspaces", None), lambda: deaf(asyncio.Event()))
    HubCollector(hub, registry)
    assert registry.get_sample_value("codehub_streams_deaf") == 1
    hub.status = HubStatus(dropped=4, reads=5, told=6, gaps=7, is_deaf=False)
    expected = {"_deaf": 0, "_dropped_total": 4, "_gaps_total": 7, "_reads_total": 5, "_events_total": 6}
    assert {name: registry.get_sample_value(f"codehub_streams{name}") for name in expected} == expected
