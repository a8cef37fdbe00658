"""EventListener: what PostgreSQL notifies goes out by Redis, and wakes the controller directly.

Losing a notification costs latency alone: after every gap (a connection that was lost, a Redis that was away) the
controller is woken and everybody who shows workspaces is told to read anew. What cannot be published is dropped and
counted; nothing waits for Redis, and nothing piles up meanwhile.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass

import structlog

from codehub.db.listening import Heard, listen
from codehub.errors import CodeHubError
from codehub.signals.events import DELETED, UPDATED, Event, RedisEvents
from codehub.together import together

log = structlog.get_logger(__name__)

SSE, WAKE, TRASH, GC = "ws_sse", "ws_wake", "ws_deleted", "gc_requested"
_MOST_PENDING = 10_000  # workspaces with something to tell; beyond it one "read anew" says as much
_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class ListenerStatus:
    """What was heard and told so far; times are the event loop's, in seconds."""

    connected: bool = False
    gaps: int = 0
    heard: int = 0
    published: int = 0
    dropped: int = 0
    deaf_since: float | None = None  # PostgreSQL is not heard
    mute_since: float | None = None  # Redis does not take anything
    untold_since: float | None = None  # something was heard then and is not told yet; by time.monotonic()
    last_error: str = ""

    @property
    def lag_seconds(self) -> float:
        """How long the oldest event that was heard has waited to be told."""
        return 0.0 if self.untold_since is None else max(0.0, time.monotonic() - self.untold_since)

    @property
    def is_failing(self) -> bool:
        return self.deaf_since is not None or self.mute_since is not None


class EventListener:
    """Hears PostgreSQL and tells Redis, each at its own pace."""

    def __init__(
        self,
        database_url: str,
        events: RedisEvents,
        *wakes: Callable[[], None],
        on_gc_request: Callable[[], None] = lambda: None,
        ping_seconds: float = 3.0,
    ) -> None:
        self.status = ListenerStatus()
        self._database_url = database_url
        self._ping_seconds = ping_seconds
        self._events = events
        self._wakes = wakes
        self._on_gc_request = on_gc_request
        self._pending: dict[str, Event] = {}  # by workspace: the newest of a burst stands for all of it
        self._wake_pending = False
        self._gap_pending = False
        self._something = asyncio.Event()

    async def run(self) -> None:
        """For ever; ends only by being cancelled."""
        await together({"hear": self._hear(), "tell": self._tell()})

    # -- PostgreSQL ---------------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        failures = 0
        while True:
            try:
                async with self._listening() as batches:
                    async for batch in batches:
                        failures = 0
                        self._take(batch)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may do
                self.status.connected = False
                self.status.deaf_since = self._failed("PostgreSQL is not heard", error, self.status.deaf_since)
            await asyncio.sleep(_pause(failures))
            failures += 1

    def _listening(self) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Heard] | None]]:
        return aclosing(listen(self._database_url, (SSE, WAKE, TRASH, GC), ping_seconds=self._ping_seconds))

    def _take(self, batch: Sequence[Heard] | None) -> None:
        if batch is None:
            self._gap()
        else:
            self.status.heard += len(batch)
            if any(heard.channel in (WAKE, TRASH) for heard in batch):
                self._wake()
            if any(heard.channel == GC for heard in batch):
                self._on_gc_request()
            for heard in batch:
                self._note(heard)
        if self.status.untold_since is None:
            self.status.untold_since = time.monotonic()
        self._something.set()

    def _gap(self) -> None:
        if self.status.deaf_since is not None:
            log.info("PostgreSQL is heard again")
        self.status.connected, self.status.deaf_since = True, None
        self.status.gaps += 1
        self._gap_pending = True
        self._on_gc_request()
        self._wake()

    def _wake(self) -> None:
        self._wake_pending = True
        for wake in self._wakes:
            wake()

    def _note(self, heard: Heard) -> None:
        if heard.channel not in (SSE, TRASH):
            return
        try:
            payload = json.loads(heard.payload)
            event = Event(
                str(payload["id"]), str(payload["owner_user_id"]), UPDATED if heard.channel == SSE else DELETED
            )
        except (ValueError, KeyError, TypeError):
            log.warning("a notification that is none of ours", channel=heard.channel)
            return
        self._pending.pop(event.workspace_id, None)  # so that it is told at its newest place
        self._pending[event.workspace_id] = event
        if len(self._pending) > _MOST_PENDING:
            self._drop(len(self._pending))

    # -- Redis --------------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        failures = 0
        while True:
            await self._something.wait()
            self._something.clear()
            events, self._pending = self._pending, {}
            wake, self._wake_pending = self._wake_pending, False
            gap, self._gap_pending = self._gap_pending, False
            try:
                await self._events.publish(list(events.values()), wake=wake, gap=gap)
            except Exception as error:  # noqa: BLE001 - Redis only carries hints
                self.status.mute_since = self._failed("Redis takes no events", error, self.status.mute_since)
                self._wake_pending = self._wake_pending or wake
                self._drop(len(events))
                await asyncio.sleep(_pause(failures))
                failures += 1
                self._drop(len(self._pending))  # what came meanwhile is in what everybody reads anew
            else:
                failures = 0
                self.status.published += len(events)
                self.status.untold_since = time.monotonic() if self._something.is_set() else None
                if self.status.mute_since is not None:
                    log.info("Redis takes events again", dropped=self.status.dropped)
                    self.status.mute_since = None

    def _drop(self, count: int) -> None:
        """Instead of telling each: everybody reads anew, as soon as anybody can be told."""
        self.status.dropped += count
        self._pending.clear()
        self._gap_pending = True
        self._something.set()

    def _failed(self, what: str, error: Exception, since: float | None) -> float:
        expected = isinstance(error, CodeHubError)
        cause = str(error) if expected else f"{type(error).__name__}: {error}"
        if since is None or cause != self.status.last_error:
            log.error(what, cause=cause, exc_info=None if expected else error)
        self.status.last_error = cause
        return asyncio.get_running_loop().time() if since is None else since


def _pause(failures: int) -> float:
    return _PAUSES[min(failures, len(_PAUSES) - 1)]
