"""What one connection may cost: a head of 64 KB that arrives within 20 s, and a number of connections that is finite.

uvicorn has a limit for none of these: whoever sends a head without an end, or nothing at all, would be held for ever.
Bodies are web/bodies.py's matter; a connection that idles between two requests is closed by uvicorn's keep-alive.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_PIECE = 8192
_REFUSAL = b"The head of the request is too large.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of this process. Every dashboard that is open is a connection."""

    connections: int = 20_000
    head_bytes: int = 64 * 1024
    head_seconds: float = 20.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    limits = Limits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._unread = 0  # bytes since the last that was a whole head or a piece of a body
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece at a time, so that what is too large is noticed before it has been read."""
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            self._unread += len(piece)
            super().data_received(piece)
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            if self._unread > self.limits.head_bytes:
                self._refuse()
                return
        if not self._is_answering() and self.timeout_keep_alive_task is None and self._deadline is None:
            self._set_deadline()

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._end_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first

    def _refuse(self) -> None:
        if not self._is_answering():  # else these bytes would be in the middle of an answer
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_REFUSAL), _REFUSAL)
            )
        self.transport.close()

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.limits.head_seconds, self._too_late)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
