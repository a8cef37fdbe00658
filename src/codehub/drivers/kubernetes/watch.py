"""Hears of changes to pods, by one watch for everybody: what wakes the controller, and whoever waits for a pod.

A hint, never the truth: it may be late or miss things. It begins at the state of a listing, goes on from the last
version that it saw (bookmarks included) when the connection ends, and lists again when the server has forgotten that
version (410). It outlives every outage; everybody is woken when it is connected again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import structlog

from codehub.drivers.kubernetes.api import GONE, ApiError, Cluster
from codehub.errors import Unreachable

log = structlog.get_logger()

_RECONNECT_SECONDS = (0.2, 10.0)


class Listener:
    """One that waits: `found` is the pod as the last change left it, None if it must be looked at."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.changed = asyncio.Event()
        self.found: dict[str, Any] | None = None


class PodWatch:
    """Runs from the first that listens until `close`."""

    def __init__(self, cluster: Cluster, selector: str) -> None:
        self._cluster = cluster
        self._selector = selector
        self._task: asyncio.Task[None] | None = None
        self._listeners: set[Listener] = set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def changes(self) -> AsyncIterator[None]:
        """Yields when something may have changed, for ever."""
        with self.listening(None) as listener:
            while True:
                await listener.changed.wait()
                listener.changed.clear()
                yield

    @contextlib.contextmanager
    def listening(self, name: str | None) -> Iterator["Listener"]:
        """Told whenever the pod of this name, or any, may have changed."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        listener = Listener(name)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _run(self) -> None:
        pause, longest = _RECONNECT_SECONDS
        version: str | None = None
        while True:
            try:
                if version is None:
                    _, version = await self._cluster.listing("pods", self._selector)
                stream = self._cluster.watch("pods", self._selector, version)
                async with contextlib.aclosing(stream):
                    async for event in stream:
                        pause = _RECONNECT_SECONDS[0]
                        version = self._take(event) or version
                continue  # the server ends a watch every few minutes: nothing was missed
            except ApiError as error:
                if error.status != GONE:
                    log.warning("pods cannot be watched", why=str(error))
                version = None
            except Unreachable:
                pass
            except Exception:  # a bug here must not end the hints
                log.exception("the watch failed")
                version = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    def _take(self, event: dict[str, Any]) -> str | None:
        """Wake whom it concerns; the version that was seen."""
        found = event.get("object") or {}
        meta = found.get("metadata") or {}
        if event.get("type") != "BOOKMARK":
            for listener in self._listeners:
                if not event or listener.name in (None, meta.get("name")):
                    listener.found = found if event.get("type") in ("ADDED", "MODIFIED") else None
                    listener.changed.set()
        return meta.get("resourceVersion")
