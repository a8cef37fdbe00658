"""The server's live events (SSE), for as long as somebody listens.

A connection that is lost is made again; each one begins with `connected` and a snapshot of everything, so that nothing
that happened in between is missed. Only an answer that will not change by trying again (not logged in, for example)
ends it with an ApiError.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from pydantic import ValidationError

from codehub.client.errors import UNREACHABLE, ApiError
from codehub.client.http import API, Http
from codehub.client.models import Workspace

SILENCE_SECONDS = 75.0  # heartbeats come every 30
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0


class EventKind(StrEnum):
    CONNECTED = "connected"  # ours: a snapshot follows
    UPDATED = "workspace_updated"
    DELETED = "workspace_deleted"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Event:
    """What was heard; `workspace` comes with UPDATED, `id` with UPDATED and DELETED."""

    kind: EventKind
    id: UUID | None = None
    workspace: Workspace | None = None


def listen(http: Http, *, sleep: Callable[[float], object] = time.sleep) -> Iterator[Event]:
    """Events without end."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            with http.stream(f"{API}/events", read_seconds=SILENCE_SECONDS) as response:
                yield Event(EventKind.CONNECTED)
                for name, data in _messages(response.iter_lines()):
                    pause = FIRST_PAUSE_SECONDS
                    event = _event_of(name, data)
                    if event is not None:
                        yield event
        except ApiError as error:
            if error.code != UNREACHABLE and error.status not in (429, 503):
                raise
        sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _messages(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The stream's format: `event:` and `data:` lines up to an empty one; `:` begins a comment."""
    name, data = "", list[str]()
    for line in lines:
        if not line:
            if data or name:
                yield name or "message", "\n".join(data)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


def _event_of(name: str, data: str) -> Event | None:
    """None for what this version does not know."""
    try:
        if name == EventKind.UPDATED:
            workspace = Workspace.model_validate_json(data)
            return Event(EventKind.UPDATED, workspace.id, workspace)
        if name == EventKind.DELETED:
            return Event(EventKind.DELETED, UUID(str(json.loads(data)["id"])))
    except (ValidationError, ValueError, KeyError, TypeError):
        return None
    return Event(EventKind.HEARTBEAT) if name == EventKind.HEARTBEAT else None
