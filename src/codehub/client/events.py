"""The server's live events (SSE), for as long as somebody listens.

A connection that is lost is made again; each one begins with `connected` and a snapshot of everything, so that nothing
that happened in between is missed. Only an answer that will not change by trying again (not logged in, for example)
ends it with an ApiError.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
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


class Events:
    """Events without end, for one reader; `close`, from any thread, ends them."""

    def __init__(self, http: Http, pause: Callable[[float], object] | None = None) -> None:
        self._http = http
        self._over = threading.Event()
        self._pause = pause or self._over.wait
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """A reader that waits is woken: its connection is hung up, not closed under its hands."""
        self._over.set()
        waiting = self._socket
        if waiting is not None:
            with suppress(OSError):
                socket.socket.shutdown(waiting, socket.SHUT_RDWR)

    def __iter__(self) -> Iterator[Event]:
        pause = FIRST_PAUSE_SECONDS
        while not self._over.is_set():
            try:
                for event in self._one_connection():
                    if event is None or event.kind is not EventKind.CONNECTED:
                        pause = FIRST_PAUSE_SECONDS
                    if event is not None and not self._over.is_set():
                        yield event
            except ApiError as error:
                if error.code != UNREACHABLE and error.status not in (429, 503):
                    raise
            self._pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _one_connection(self) -> Iterator[Event | None]:
        """None for what this version does not know."""
        with self._http.stream(f"{API}/events", read_seconds=SILENCE_SECONDS) as response:
            network = response.extensions.get("network_stream")
            self._socket = network.get_extra_info("socket") if network is not None else None
            try:
                yield Event(EventKind.CONNECTED)
                if self._over.is_set():
                    return
                for name, data in _messages(response.iter_lines()):
                    yield _event_of(name, data)
            finally:
                self._socket = None


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
