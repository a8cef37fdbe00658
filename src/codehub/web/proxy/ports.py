"""Between the engine, which moves bytes, and the gate, which says where they go (ADR 8).

The gate answers from memory wherever it can: then `route` returns a plain value and a request costs no round trip.
Only when something must be asked for does it return an awaitable.
"""

from collections.abc import Awaitable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from codehub.model.workspace import WorkspaceId


@dataclass(slots=True, eq=False)
class Request:
    """The head of a request as the engine read it; names of headers in lower case, in the order they came."""

    method: bytes
    target: bytes  # origin form: path and query, as sent
    headers: list[tuple[bytes, bytes]]
    host: bytes  # the authority it was sent to, lower case; behind a trusted proxy what that one says
    peer: str  # whose request it is: an address; behind trusted proxies the nearest that is not one of them
    is_secure: bool  # whether the browser speaks TLS
    is_upgrade: bool  # asks for a WebSocket
    is_from_proxy: bool = False  # a trusted one


REPLAYABLE = frozenset({b"GET", b"HEAD", b"OPTIONS"})  # methods of requests that may be sent twice


class Exchange(Protocol):
    """A request, or a WebSocket, on its way through: the engine's."""

    def end(self) -> None:
        """Cut it off now: its visitor may no longer be there."""
        ...


@dataclass(slots=True, eq=False)
class Route:
    """Where requests go. One object serves every request of one visitor to one workspace while that holds.

    `key` is what a connection to `address` may be used again for: the instance, never the address alone.
    """

    key: Hashable
    address: str  # "unix:/path" or "host:port"
    workspace: WorkspaceId | None = None  # None is the API process
    port: int | None = None  # a forwarded port of the workspace, rather than its IDE
    strip: bytes = b""  # taken off the front of the path, as in /w/{id}; the path keeps its slash
    cookie_path: bytes = b"/"  # the widest path that the workspace may set a cookie for
    policy: bytes = b""  # a field that each answer gets (confining.py)
    tail: bytes = b""  # added to the pages that a person opens (menu.py)
    headers: tuple[tuple[bytes, bytes], ...] = ()  # said to the other end beside what the engine says: `x-codehub-…`
    open: set[Exchange] = field(default_factory=set)  # the engine keeps it; who ends the visit ends these
    is_over: bool = False  # the visit has ended, and with it what was open: nothing may be begun here any more
    good_until: float = float("-inf")  # monotonic time until when the same visitor's same head leads here: the gate's
    used_at: float = 0.0  # monotonic time of the last thing that counts as activity; the engine writes it


@dataclass(slots=True, frozen=True)
class Refusal:
    """An answer of the proxy's own: something is wrong that the API process cannot be asked about."""

    status: int
    code: str
    message: str


Decision = Route | Refusal


class Gate(Protocol):
    """Who may go where."""

    def route(self, request: Request) -> Decision | Awaitable[Decision]:
        """Where this request goes. A workspace only for a visitor who may enter it, while it runs."""
        ...

    def failed(self, tried: Sequence[Route], request: Request) -> Decision | Awaitable[Decision]:
        """None of these could be reached, the last one just now: where else? (The API, for a page.)

        In the end a refusal, however often it is asked.
        """
        ...
