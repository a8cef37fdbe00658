"""A connection to a workspace or to the API process: sends one request at a time and reads its response.

A response is passed on as it arrives; it is never longer or shorter for the client than it was here: if it breaks off,
the client's connection does too.
"""

import asyncio
from collections.abc import Hashable

from codehub.web.proxy import answers
from codehub.web.proxy.framing import Body, Endless
from codehub.web.proxy.heads import BadHead, Fields, ResponseHead, read_response
from codehub.web.proxy.pool import Pool
from codehub.web.proxy.ports import Refusal

_NOTHING = (b"\0", ResponseHead(0, b"", 1, Fields([], [])), -1)
_NO_BODY = frozenset({204, 304})


class Visitor:
    """What an upstream tells about the exchange it serves: the client's side of it."""

    __slots__ = ()

    def interim(self, head: ResponseHead) -> None:
        """A response before the response, such as 100 Continue."""
        raise NotImplementedError

    def upgraded(self, head: ResponseHead, data: bytes) -> None:
        """It is a WebSocket from here on; `data` came after the head."""
        raise NotImplementedError

    def answered(self, head: ResponseHead, data: bytes) -> Body:
        """The response and what came after its head: the body, fed with that."""
        raise NotImplementedError

    def answered_whole(self, head: ResponseHead, body: bytes) -> bool:
        """The response with all of its body, as its length says, which completes it; False: it must be taken apart."""
        raise NotImplementedError

    def passed(self, data: bytes) -> None:
        """More of the body."""
        raise NotImplementedError

    def completed(self) -> bool:
        """The response is whole. Whether the request was whole too."""
        raise NotImplementedError

    def failed(self, refusal: Refusal) -> None:
        """There will be no response."""
        raise NotImplementedError

    def lost(self, *, is_reused: bool) -> None:
        """It closed before anything came back; a kept connection may have been closed all along."""
        raise NotImplementedError

    def broken(self) -> None:
        """The response broke off."""
        raise NotImplementedError

    def upstream_writable(self, *, is_writable: bool) -> None:
        raise NotImplementedError


class Upstream(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_body",
        "_buffer",
        "_has_answered",
        "_head_bytes",
        "_is_paused",
        "_keeps",
        "_known",
        "_loop",
        "_pool",
        "idle_since",
        "is_reused",
        "key",
        "transport",
        "visitor",
        "write_bytes",
    )
    transport: asyncio.Transport  # once it is connected

    def __init__(self, key: Hashable, pool: "Pool[Upstream]", head_bytes: int, write_bytes: int) -> None:
        self.key = key
        self.idle_since = 0.0
        self.is_reused = False
        self.visitor: Visitor | None = None
        self.write_bytes = write_bytes
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._head_bytes = head_bytes
        self._buffer = b""
        self._body: Body | None = None
        self._has_answered = False
        self._keeps = False
        self._known: tuple[bytes, ResponseHead, int] = _NOTHING  # a head's bytes, it, and its size with a whole body
        self._is_paused = False

    def is_open(self) -> bool:
        return not self.transport.is_closing()

    def close(self) -> None:
        self.transport.abort()

    def begin(self, visitor: Visitor, head: bytes) -> None:
        self.visitor = visitor
        self._has_answered = False
        self.transport.write(head)

    def leave(self) -> None:
        """The client has gone."""
        self.visitor = None
        self.transport.abort()

    def pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    # What the transport tells.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        self.transport = transport
        transport.set_write_buffer_limits(high=self.write_bytes)

    def data_received(self, data: bytes) -> None:
        visitor = self.visitor
        if visitor is None:  # nobody asked
            self.transport.abort()
            return
        body = self._body
        if body is None and not self._buffer:
            known = self._known
            if len(data) == known[2] and data.startswith(known[0]):
                self.visitor = None
                if visitor.answered_whole(known[1], data[len(known[0]) :]):
                    self._keep()
                    return
                self.visitor = visitor
        try:
            if body is None:
                self._read_head(visitor, self._buffer + data if self._buffer else data)
                return
            out = body.feed(data)
        except BadHead:
            self._give_up()
            return
        if out:
            visitor.passed(out)
        if body.done:
            self._complete(visitor, body.rest)

    def connection_lost(self, exc: Exception | None) -> None:
        visitor, body = self.visitor, self._body
        self.visitor = None
        if visitor is None:
            self._pool.forget(self)
        elif body is not None:
            if isinstance(body, Endless) and exc is None:
                visitor.passed(body.end())
                visitor.completed()
            else:
                visitor.broken()
        elif self._has_answered:
            visitor.failed(answers.NO_ANSWER)
        else:
            visitor.lost(is_reused=self.is_reused)

    def pause_writing(self) -> None:
        if self.visitor is not None:
            self.visitor.upstream_writable(is_writable=False)

    def resume_writing(self) -> None:
        if self.visitor is not None:
            self.visitor.upstream_writable(is_writable=True)

    # The response.

    def _read_head(self, visitor: Visitor, data: bytes) -> None:
        self._has_answered = True
        while True:
            end = data.find(b"\r\n\r\n", 0, self._head_bytes)
            if end < 0:
                if len(data) > self._head_bytes:
                    raise BadHead("The head does not end.", 502)
                self._buffer = data
                return
            raw = data[: end + 4]
            if raw == self._known[0]:  # small answers much resemble each other
                head = self._known[1]
            else:
                head = read_response(raw[:-4])
                self._known = (raw, head, _size_of(head, len(raw)))
            data = data[end + 4 :]
            if head.status >= 200:
                break
            if head.status == 101:
                self._buffer = b""
                visitor.upgraded(head, data)
                return
            visitor.interim(head)
        self._buffer = b""
        body = self._body = visitor.answered(head, data)
        self._keeps = head.minor == 1 and b"close" not in head.fields.connection and not isinstance(body, Endless)
        if body.done:
            self._complete(visitor, body.rest)

    def _complete(self, visitor: Visitor, surplus: bytes) -> None:
        self._body = None
        self.visitor = None
        was_whole = visitor.completed()
        if self._keeps and was_whole and not surplus:
            self._keep()
        else:
            self.transport.abort()

    def _keep(self) -> None:
        """For the next request; one that is closing is told to the pool in a moment, and not taken before."""
        self.is_reused = True
        if self._is_paused:
            self.resume()
        self._pool.put(self, self._loop.time())

    def _give_up(self) -> None:
        """It does not speak HTTP/1.1."""
        visitor, has_begun = self.visitor, self._body is not None
        self.visitor = None
        self.transport.abort()
        assert visitor is not None
        if has_begun:
            visitor.broken()
        else:
            visitor.failed(answers.BAD_ANSWER)


def _size_of(head: ResponseHead, size: int) -> int:
    """Of the whole response, where its length says that, and it leaves the connection open; else -1."""
    fields = head.fields
    if head.minor == 0 or b"close" in fields.connection or fields.is_chunked or fields.length is None:
        return -1
    return -1 if head.status < 200 or head.status in _NO_BODY else size + fields.length
