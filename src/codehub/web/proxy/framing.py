"""Where a body ends, told from its bytes as they pass; nothing is kept but a line that is not whole yet.

`feed` takes what arrived and returns what to send on; `done` tells that the body has ended and `rest` what came after.
"""

import re
from typing import Protocol

from codehub.web.proxy.headers import trailers
from codehub.web.proxy.heads import BadHead, Fields, ResponseHead, read_fields

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")
_MAX_LINE = 4096
_MAX_TRAILERS = 16 * 1024
_NO_BODY = frozenset({204, 304})


class Body(Protocol):
    """The rest of a message."""

    done: bool
    rest: bytes

    def feed(self, data: bytes) -> bytes:
        """What to send on of this. BadHead when it is not a body of this kind."""
        ...


class Sized:
    """A number of bytes."""

    __slots__ = ("done", "left", "rest")

    def __init__(self, length: int) -> None:
        self.left = length
        self.done = length == 0
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        size = len(data)
        if size < self.left:
            self.left -= size
            return data
        if size > self.left:
            data, self.rest = data[: self.left], data[self.left :]
        self.left = 0
        self.done = True
        return data


class SizedWithTail(Sized):
    """A number of bytes, and then some of our own."""

    __slots__ = ("_tail",)

    def __init__(self, length: int, tail: bytes) -> None:
        super().__init__(length)
        self._tail = tail

    def feed(self, data: bytes) -> bytes:
        out = super().feed(data)
        return out + self._tail if self.done else out


class Endless:
    """Everything until the connection closes; sent on in chunks, so that the next reader can tell a whole body."""

    __slots__ = ("_in_chunks", "_tail", "done", "rest")

    def __init__(self, *, in_chunks: bool, tail: bytes = b"") -> None:
        self._in_chunks = in_chunks
        self._tail = tail
        self.done = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._in_chunks else data

    def end(self) -> bytes:
        self.done = True
        last = self.feed(self._tail) if self._tail else b""
        return b"%b0\r\n\r\n" % last if self._in_chunks else last


class Chunked:
    """Chunks: their sizes are written anew and extensions left out; trailers pass if they may."""

    __slots__ = ("_in_chunks", "_left", "_line", "_step", "_tail", "done", "rest")

    def __init__(self, *, in_chunks: bool = True, tail: bytes = b"") -> None:
        self._in_chunks = in_chunks
        self._tail = tail
        self._step = self._size
        self._left = 0
        self._line = b""  # the beginning of something that is not whole yet
        self.done = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        if self._left > len(data):  # in the middle of a large chunk
            self._left -= len(data)
            return data
        out: list[bytes] = []
        if self._line:
            data, self._line = self._line + data, b""
        at = 0
        while not self.done and at < len(data):
            after = self._step(data, at, out)
            if after < 0:
                self._line = data[at:]
                return b"".join(out)
            at = after
        if self.done:
            self.rest = data[at:]
        return b"".join(out)

    # Each step takes its part of the data from `at` on and returns where that ends, or -1 for "not whole yet".

    def _size(self, data: bytes, at: int, out: list[bytes]) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            if len(data) - at > _MAX_LINE:
                raise BadHead("A chunk's size does not end.")
            return -1
        matched = _SIZE.fullmatch(data, at, end)
        if matched is None or end - at > _MAX_LINE:
            raise BadHead("A chunk's size is not a number.")
        self._left = int(matched[1], 16)
        if self._left == 0:
            self._step = self._trailers
            return end + 2
        if self._in_chunks:
            out.append(b"%x\r\n" % self._left)
        self._step = self._content
        return end + 2

    def _content(self, data: bytes, at: int, out: list[bytes]) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        out.append(piece)
        if self._left == 0:
            self._step = self._content_end
        return at + len(piece)

    def _content_end(self, data: bytes, at: int, out: list[bytes]) -> int:
        end = data[at : at + 2]
        if end != b"\r\n"[: len(end)]:
            raise BadHead("A chunk is longer than its size.")
        if len(end) < 2:
            return -1
        if self._in_chunks:
            out.append(b"\r\n")
        self._step = self._size
        return at + 2

    def _trailers(self, data: bytes, at: int, out: list[bytes]) -> int:
        if data.startswith(b"\r\n", at):
            end, block = at, b""
        else:
            end = data.find(b"\r\n\r\n", at)
            if (len(data) if end < 0 else end) - at > _MAX_TRAILERS:
                raise BadHead("The trailers are too large.", 431)
            if end < 0:
                return -1
            block = data[at:end]
            end += 2
        tail = self._tail
        if tail:
            out.append(b"%x\r\n%b\r\n" % (len(tail), tail) if self._in_chunks else tail)
        if self._in_chunks:
            out.append(b"0\r\n%b\r\n" % trailers(read_fields(block).pairs))
        self.done = True
        return end + 2


def request_body(fields: Fields) -> Body | None:
    """What follows a request's head, if anything does."""
    if fields.is_chunked:
        return Chunked()
    return Sized(fields.length) if fields.length else None


def response_body(head: ResponseHead, method: bytes, *, in_chunks: bool, tail: bytes = b"") -> tuple[Body, bytes]:
    """What follows a response's head, and the fields that tell the client. `in_chunks`: whether it knows chunks.

    `tail` comes after the body, where there is one.
    """
    fields = head.fields
    if fields.is_chunked and head.minor == 0:
        raise BadHead("HTTP/1.0 has no transfer codings.", 502)
    if fields.is_chunked:
        framing = b"transfer-encoding: chunked\r\n" if in_chunks else b""
    elif fields.length is not None:
        framing = b"content-length: %d\r\n" % fields.length
    else:
        framing = b""
    if head.status in _NO_BODY:
        return Sized(0), framing if head.status == 304 and not fields.is_chunked else b""
    if method == b"HEAD":
        return Sized(0), framing
    if fields.is_chunked:
        return Chunked(in_chunks=in_chunks, tail=tail), framing
    if fields.length is not None and tail:
        return SizedWithTail(fields.length, tail), b"content-length: %d\r\n" % (fields.length + len(tail))
    if fields.length is not None:
        return Sized(fields.length), framing
    return Endless(in_chunks=in_chunks, tail=tail), b"transfer-encoding: chunked\r\n" if in_chunks else b""
