"""What counts as activity: HTTP requests and their bodies, and WebSocket messages in either direction. Pure.

What an open tab says by itself does not, though nobody is there: pings, pongs and closes, the messages by which VS Code
keeps a connection, the questions that JupyterLab asks every ten seconds. Known are those of the IDEs that we offer, as
they were seen to be (code-server 4.139, JupyterLab 4.6); whatever is not known counts: nobody who is at work must ever
be taken for absent. Frames are read as they pass and not touched. Compressed ones cannot be told apart, so code-server
is run without compression (drivers/process/programs.py, images/workspace).
"""

# JupyterLab, after /api/: asked again and again by an open tab, with the time as its only parameter.
_POLLED = frozenset({b"kernels", b"kernelspecs", b"me", b"sessions", b"terminals", b"workspaces"})
_LISTED = b"content=1&hash=0&"  # the folder that is shown; a file that is opened is asked for in other words
_CONTROL = 8  # opcodes from here on are ping, pong, close
_MASKED = 0x80
# VS Code's protocol: a type, three numbers of four bytes; nothing follows these two.
_VSCODE_HEADER = 13
_VSCODE_ACK, _VSCODE_KEEP_ALIVE = 3, 9


def is_request_activity(method: bytes, target: bytes) -> bool:
    """Whether a request to an IDE is a sign of use; its bodies, or the messages of its WebSocket, are like it."""
    at = target.find(b"/api/")
    if at < 0:
        return True
    what, _, query = target[at + 5 :].partition(b"?")
    if method == b"PUT":  # which panels are open, saved after each look at the folder
        return not (what.startswith(b"workspaces/") and query.isdigit())
    if method != b"GET":
        return True
    if what == b"events/subscribe":  # tells of the above
        return False
    if what == b"contents" or what.startswith(b"contents/"):
        return not (query.startswith(_LISTED) and query[len(_LISTED) :].isdigit())
    return not (what in _POLLED and query.isdigit())


def is_message_activity(opcode: int, *, is_compressed: bool, length: int, first: int) -> bool:
    """Whether a frame is a sign of use, by its kind, its length and the first byte of its content."""
    if opcode >= _CONTROL:
        return False
    if is_compressed or length != _VSCODE_HEADER:
        return length > 0
    return first not in (_VSCODE_ACK, _VSCODE_KEEP_ALIVE)


class FrameScanner:
    """One direction of a WebSocket: says of each piece whether something in it counts."""

    __slots__ = ("_begun", "_skip")

    def __init__(self) -> None:
        self._skip = 0  # bytes of the present frame that are still to come
        self._begun = b""  # a frame's header that is not whole yet

    def feed(self, data: bytes) -> bool:
        size = len(data)
        if size >= 2 and not self._skip and not self._begun:  # one small message, as most are: no need to take it apart
            length = data[1]
            start = 2
            if length >= _MASKED:
                length -= _MASKED
                start = 6
            if size == start + length and length < 126:
                if data[0] & 0x0F >= _CONTROL:
                    return False
                return length > 0 if length != _VSCODE_HEADER else _is_activity(data, 0, start, length)
        if self._skip >= size:  # in the middle of a message that was judged at its beginning
            self._skip -= size
            return False
        if self._begun:
            data = self._begun + data
            size = len(data)
            self._begun = b""
        at, self._skip = self._skip, 0
        counts = False
        while at < size:
            header = _header(data, at, size)
            if header is None:
                self._begun = data[at:]
                break
            start, length = header
            counts = counts or _is_activity(data, at, start, length)
            at = start + length
        else:
            self._skip = at - size
        return counts


def _header(data: bytes, at: int, size: int) -> tuple[int, int] | None:
    """Where the content begins, and how long it is; None while that cannot be told."""
    if size - at < 2:
        return None
    second = data[at + 1]
    length = second & 0x7F
    start = at + 2
    if length >= 126:
        wide = 2 if length == 126 else 8
        length = int.from_bytes(data[start : start + wide])
        start += wide
    if second & _MASKED:
        start += 4
    # One byte of the content is looked at too.
    return (start, length) if size >= start + (length > 0) else None


def _is_activity(data: bytes, at: int, start: int, length: int) -> bool:
    first = data[start] if length else 0
    if data[at + 1] & _MASKED and length:
        first ^= data[start - 4]
    return is_message_activity(data[at] & 0x0F, is_compressed=bool(data[at] & 0x40), length=length, first=first)
