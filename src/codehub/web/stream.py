"""One open connection of server-sent events: what waits to be written to it.

At most the newest state of each workspace waits, never a queue of them, so a slow reader costs no more memory than a
quick one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from codehub.model.workspace import WorkspaceId
from codehub.services.live import Credential

HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
_CHUNK = 1 << 16  # bytes that are written at once


def event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class Stream:
    """What waits for one connection; whoever holds the connection writes it."""

    def __init__(self, credential: Credential) -> None:
        self.credential = credential
        self.is_new = True  # nothing was shown to it yet
        self.is_over = False
        self.is_dropped = False
        self._waiting: dict[WorkspaceId | None, bytes] = {}
        self._something = asyncio.Event()
        self._writing: asyncio.Timeout | None = None

    def put(self, which: WorkspaceId | None, event: bytes) -> None:
        """In the place of what waits about the same workspace."""
        if not self.is_dropped:
            self._waiting[which] = event
            self._something.set()

    def drop(self) -> None:
        """Nothing waits for it any more, and nothing ever will."""
        self.is_dropped = True
        self._waiting.clear()

    def end(self) -> None:
        """Nothing more is written; a write that does not get through is given up."""
        self.is_over = True
        self._something.set()
        if self._writing is not None:
            with suppress(RuntimeError):  # it has just been given up
                self._writing.reschedule(asyncio.get_running_loop().time())

    async def next(self, until: float) -> bytes:
        """What is to be written now; nothing when it is over, or `until` has come (the loop's time)."""
        try:
            async with asyncio.timeout_at(until):
                await self._something.wait()
        except TimeoutError:
            return b""
        if self.is_over:
            return b""
        taken: list[bytes] = []
        size = 0
        while self._waiting and size < _CHUNK:
            event = self._waiting.pop(next(iter(self._waiting)))
            taken.append(event)
            size += len(event)
        if not self._waiting:
            self._something.clear()
        return b"".join(taken)

    @asynccontextmanager
    async def writing(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises TimeoutError when what is written inside does not get through, or the stream is ended meanwhile."""
        limit = asyncio.timeout(seconds)
        async with limit:
            self._writing = limit
            try:
                yield
            finally:
                self._writing = None
