"""A request whose head differs from the last one's in its path alone, as most of a browser's do: known by its bytes.

Nothing of such a head is read again, nor is the gate asked, for as long as the route says (`good_until`): what is
remembered are the very bytes around the path. The path itself is looked at each time.
"""

from codehub.web.paths import RESERVED
from codehub.web.proxy.heads import Fields, RequestHead
from codehub.web.proxy.ports import REPLAYABLE, Request, Route

_PATH = bytes(byte for byte in range(33, 127) if byte != ord("#"))
_OURS = RESERVED.encode()[1:]
LONGEST_BYTES = 8192


class Again:
    """Of one connection. `head` and `request` are those of the request that `sent` was last asked about."""

    __slots__ = (
        "_end",
        "_path_at",
        "_prefix",
        "_sent_end",
        "_sent_start",
        "_start",
        "head",
        "request",
        "route",
        "takes_whole",
    )

    def __init__(self, head: RequestHead, request: Request, route: Route, block: bytes, sent: bytes) -> None:
        """`block` is the head without its first line, `sent` what that became, both with their end."""
        self.head, self.request, self.route = head, request, route
        self.takes_whole = head.method != b"HEAD"
        self._prefix = route.strip + b"/"
        self._start = b"%b %b" % (head.method, self._prefix)
        self._end = b" HTTP/1.1\r\n%b\r\n\r\n" % block
        self._path_at = len(self._start)
        self._sent_start = head.method + b" /"
        self._sent_end = b" HTTP/1.1\r\n" + sent

    def sent(self, data: bytes) -> bytes | None:
        """What becomes of it, if it is such a head and nothing but that; None: it must be read."""
        if not data.endswith(self._end) or not data.startswith(self._start):
            return None
        path = data[self._path_at : -len(self._end)]
        if path.translate(None, _PATH) or path.startswith(_OURS):
            return None
        self.request.target = self.head.target = self._prefix + path
        return b"%b%b%b" % (self._sent_start, path, self._sent_end)


def may_come_again(head: RequestHead, request: Request, route: Route) -> bool:
    """Whether the next one may be known by its bytes: to a workspace, with no body, nothing asked for beside it."""
    fields: Fields = head.fields
    return (
        route.workspace is not None
        and head.minor == 1
        and head.method in REPLAYABLE
        and request.target.startswith(route.strip + b"/")
        and not (fields.length or fields.is_chunked or fields.expect or fields.upgrade or request.is_upgrade)
        and not fields.is_page
        and b"close" not in fields.connection
    )
