"""The application with its live events, as `codehub up` and `codehub api` serve it."""

import asyncio
import socket

from fastapi import FastAPI

from codehub.dependencies import Checks
from codehub.metrics import Metrics
from codehub.together import ended, finished
from codehub.web.api import events
from codehub.web.app import ROUTERS, Isolation, create_app
from codehub.web.context import Context
from codehub.web.draining import Draining
from codehub.web.hub_measures import HubCollector
from codehub.web.live import Hub
from codehub.web.server import serve


def application(
    checks: Checks,
    context: Context,
    isolation: Isolation = dict,
    metrics: Metrics | None = None,
    draining: Draining | None = None,
) -> FastAPI:
    metrics = metrics or Metrics()
    app = create_app(checks, metrics, isolation, context, draining)
    if events.router not in ROUTERS:
        app.include_router(events.router, prefix="/api/v1")
    if not hasattr(app.state, "hub"):
        app.state.hub = Hub.over(context)
    hub: Hub = app.state.hub
    metrics.sse_clients.set_function(lambda: hub.status.streams)
    HubCollector(hub, metrics.registry)
    return app


async def serve_with_events(app: FastAPI, listener: socket.socket) -> None:
    """Until cancelled: then every stream ends, so that none holds up the end of the others' requests."""
    hub: Hub = app.state.hub
    context: Context = app.state.context
    grace_seconds = context.settings.server.drain_requests
    events_task = asyncio.create_task(hub.run(), name="events")
    watch_task = asyncio.create_task(context.watch.run(), name="watch")
    http_task = asyncio.create_task(serve(app, listener, grace_seconds=grace_seconds), name="http")
    try:
        done, _ = await asyncio.wait({events_task, watch_task, http_task}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        http_task.cancel()  # once: it answers what is under way
        try:
            await ended([events_task, watch_task])
        finally:
            await finished(http_task)
