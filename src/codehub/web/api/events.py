"""GET /events: what happens to one's own workspaces, as server-sent events (SPEC sections 11 and 13)."""

import asyncio
import random
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from codehub.errors import Unavailable
from codehub.services.actors import Actor, ActorKind
from codehub.web.auth import CurrentActor
from codehub.web.context import InContext
from codehub.web.csrf import check_same_origin
from codehub.web.live import Hub
from codehub.web.stream import HEARTBEAT, Stream

router = APIRouter(tags=["events"])

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx, and others that follow it, would hold events back
}
_EXAMPLE = (
    'event: workspace_updated\ndata: {"id": "…", "name": "thesis", "phase": "RUNNING", …}\n\n'
    'event: workspace_deleted\ndata: {"id": "…"}\n\n'
    "event: heartbeat\ndata: {}\n\n"
)


def hub_of(connection: HTTPConnection) -> Hub:
    hub: Hub | None = getattr(connection.app.state, "hub", None)
    if hub is None:
        raise Unavailable("This process serves no events.", "Ask the one that serves the dashboard.")
    return hub


class EventStream(Response):
    """Answers for as long as the stream lasts."""

    def __init__(self, hub: Hub, actor: Actor) -> None:
        super().__init__(status_code=HTTPStatus.OK, headers=_HEADERS)
        del self.headers["content-length"]
        self._hub = hub
        self._actor = actor

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        async with self._hub.joined(self._actor) as stream:
            gone = asyncio.create_task(_until_gone(receive, stream))
            try:
                await self._write(stream, send)
            finally:
                gone.cancel()

    async def _write(self, stream: Stream, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        pace, now = self._hub.pace, asyncio.get_running_loop().time
        beat_at = now() + pace.heartbeat_seconds
        event = b"retry: %d\n\n" % random.randint(500, 2500)  # noqa: S311 - so that not all come back at once
        while not stream.is_over:
            try:
                async with stream.writing(pace.stall_seconds):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            except TimeoutError:
                if not stream.is_over:
                    self._hub.drop(stream)
                break
            event = b""
            while not event and not stream.is_over:
                event = await stream.next(beat_at)
                if now() >= beat_at:
                    event += HEARTBEAT
                    beat_at += pace.heartbeat_seconds
        # Whoever was dropped learns it when they read again, and keeps their place among the user's streams until then.
        with suppress(TimeoutError):
            async with stream.writing(None if stream.is_dropped else pace.stall_seconds):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()


@router.get(
    "/events",
    status_code=HTTPStatus.OK,
    response_class=EventStream,
    responses={
        200: {
            "description": "Events until the session or token ends, or the server stops.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
        },
    },
)
async def events(
    actor: CurrentActor, request: Request, context: InContext, hub: Annotated[Hub, Depends(hub_of)]
) -> EventStream:
    """What happens to your workspaces, as it happens (server-sent events).

    First one `workspace_updated` with each workspace you have, then a `heartbeat`: what you knew of and were not shown
    is gone. From then on `workspace_updated` (the whole object) whenever something about one has changed,
    `workspace_deleted` {id}, and a `heartbeat` every 30 seconds.

    `Last-Event-ID` is not used: whoever connects again is shown everything as it is. Several changes in quick
    succession may be one event. A connection whose other end does not read is closed.
    """
    if actor.kind is ActorKind.USER:
        check_same_origin(request, context.settings.accounts)  # a user has only so many
    return EventStream(hub, actor)
