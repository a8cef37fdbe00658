"""A client's exchange once its request was sent: what the upstream answers, and how that ends.

The other half, how a request is read and sent, is in client.py.
"""

import asyncio
from collections.abc import Awaitable

from codehub.web.proxy import answers
from codehub.web.proxy.connection import CLOSED, DECIDING, EXCHANGE, HEAD, Connection
from codehub.web.proxy.engine import Engine, Stuck, stuck_since
from codehub.web.proxy.framing import Body, response_body
from codehub.web.proxy.headers import response_fields
from codehub.web.proxy.heads import BadHead, RequestHead, ResponseHead
from codehub.web.proxy.menu import tail_of, without_validators
from codehub.web.proxy.names import LOGIN
from codehub.web.proxy.places import Origin
from codehub.web.proxy.ports import REPLAYABLE, Decision, Refusal, Request, Route
from codehub.web.proxy.tunnel import Tunnel
from codehub.web.proxy.upstream import Upstream, Visitor


class Answering(Connection, Visitor):
    """The state of an exchange, and what the upstream tells of it."""

    __slots__ = (
        "_body",
        "_counts",
        "_has_answered",
        "_head",
        "_is_large",
        "_is_last",
        "_route",
        "_takes_whole",
        "_task",
        "_upstream",
        "_upstream_stuck",
        "_was_lost",
        "request",
    )
    request: Request

    def __init__(self, engine: Engine, origin: Origin | None = None) -> None:
        super().__init__(engine, origin)
        self._head: RequestHead | None = None
        self._is_large = False  # the head: it is not kept for longer than its request
        self._body: Body | None = None  # the rest of the request
        self._route: Route | None = None
        self._upstream: Upstream | None = None
        self._upstream_stuck: Stuck | None = None  # while the upstream does not take what was sent
        self._task: asyncio.Task[None] | None = None
        self._counts = True  # is a sign of use
        self._has_answered = False  # something of the response was written
        self._was_lost = False  # an API ended before it answered
        self._is_last = False
        self._takes_whole = False  # a response with its body at once: nothing else is to be thought of

    # The other half's.

    def _ask(self) -> Decision | Awaitable[Decision]:
        """The gate."""
        raise NotImplementedError

    async def _reach(self, decision: Decision | Awaitable[Decision]) -> None:
        """Connect to where it says, and send."""
        raise NotImplementedError

    def _read_buffered(self) -> None:
        """The next request, of which something has arrived."""
        raise NotImplementedError

    def _forget_head(self) -> None:
        """What is too large to be kept."""
        raise NotImplementedError

    def _is_whole(self) -> bool:
        return self._body is None or self._body.done

    def _is_replayable(self) -> bool:
        return self._body is None and self.request.method in REPLAYABLE

    # What the upstream tells.

    def upstream_writable(self, *, is_writable: bool) -> None:
        now = self._engine.now()
        self._upstream_stuck = None if is_writable else (0, now)
        if not self._is_whole():  # whose turn it is
            self._deadline = now + self._engine.limits.body_seconds if is_writable else None
        self._read(is_writable)

    def check(self, now: float) -> None:
        super().check(now)
        if self._upstream_stuck is not None and self._upstream is not None:
            self._upstream_stuck = stuck_since(self._upstream_stuck, self._upstream.transport, now)
            if now - self._upstream_stuck[1] > self._engine.limits.stalled_seconds:
                self._give_up_waiting()

    def _expire(self) -> None:
        if self._state is EXCHANGE and self._is_whole() and not self._has_ended:
            self._give_up_waiting()
        else:
            super()._expire()

    def _give_up_waiting(self) -> None:
        """For the upstream."""
        self._leave_upstream()
        if self._has_answered:
            self.end()
        else:
            self._answer(answers.LATE)

    def interim(self, head: ResponseHead) -> None:
        assert self._route is not None
        if self._head is not None and self._head.minor == 1:
            fields = response_fields(head, self.request, self._route)
            self.transport.write(b"HTTP/1.1 %b\r\n%b\r\n" % (head.line, fields))

    def _note_login(self, head: ResponseHead, route: Route) -> None:
        if route.workspace is None and self._origin is not None and any(name == LOGIN for name, _ in head.fields.pairs):
            self._engine.know(self._origin)

    def answered(self, head: ResponseHead, data: bytes) -> Body:
        request, route = self.request, self._route
        assert route is not None
        if head.fields.has_claims:
            self._note_login(head, route)
        assert self._head is not None
        tail = tail_of(head, request, route) if self._head.fields.is_page else b""
        body, framing = response_body(head, request.method, in_chunks=self._head.minor == 1, tail=tail)
        fields = response_fields(head, request, route)
        if self._engine.is_draining:
            self._is_last = True
        self._has_answered = True
        tally = self._engine.tally
        (tally.by_api if route.workspace is None else tally.by_workspace)[head.status // 100] += 1
        if not self._has_ended and self._is_whole():
            self._deadline = None
        self.transport.write(
            b"HTTP/1.1 %b\r\n%b%b%b\r\n%b"
            % (
                head.line,
                without_validators(fields) if tail else fields,
                framing,
                b"connection: close\r\n" if self._is_last else b"",
                body.feed(data) if data else b"",
            )
        )
        return body

    def answered_whole(self, head: ResponseHead, body: bytes) -> bool:
        route, engine = self._route, self._engine
        if not self._takes_whole or engine.is_draining:
            return False
        assert route is not None
        if head.fields.has_claims:
            self._note_login(head, route)
        sent = head.whole
        if sent is None or sent[0] is not route:
            fields = response_fields(head, self.request, route)
            sent = (route, b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n" % (head.line, fields, len(body)))
            # Unless it depends on the request. What was remembered before may be of another route.
            head.whole = sent if head.sent is not None and head.sent[0] is route else None
        tally = engine.tally
        (tally.by_api if route.workspace is None else tally.by_workspace)[head.status // 100] += 1
        self._upstream = None
        route.open.discard(self)
        self._route = None
        self.transport.write(sent[1] + body)
        if self._buffer or self._has_ended or self._is_large or not self._can_write or not self._can_read:
            self._next()
        else:
            self._state = HEAD
            self._deadline = engine.now() + engine.limits.idle_seconds
        return True

    def passed(self, data: bytes) -> None:
        assert self._route is not None
        now = self._engine.now()
        if self._counts:
            self._route.used_at = now
        if self._has_ended:
            self._deadline = now + self._engine.limits.half_closed_seconds
        self.transport.write(data)

    def completed(self) -> bool:
        self._upstream = None
        self._leave_route()
        was_whole = self._is_whole()
        if self._is_last or not was_whole:
            self._finish(was_whole=was_whole)
        else:
            self._next()
        return was_whole

    def upgraded(self, head: ResponseHead, data: bytes) -> None:
        route, upstream = self._route, self._upstream
        assert route is not None
        assert upstream is not None
        if not self.request.is_upgrade or route.workspace is None or head.fields.upgrade != b"websocket":
            self._leave_upstream()
            self._answer(answers.BAD_ANSWER)
            return
        self._engine.tally.by_workspace[1] += 1
        fields = response_fields(head, self.request, route)
        self.transport.write(
            b"HTTP/1.1 %b\r\n%bconnection: Upgrade\r\nupgrade: websocket\r\n\r\n" % (head.line, fields)
        )
        self._upstream = upstream.visitor = None
        self._state = CLOSED
        assert self._origin is not None
        tunnel = Tunnel(self._engine, route, self.transport, upstream.transport, self._origin, counts=self._counts)
        self._engine.clients.discard(self)
        self._leave_route()
        self._read(True)
        tunnel.begin(self._buffer, data)
        self._buffer = b""

    def failed(self, refusal: Refusal) -> None:
        self._upstream = None
        self._leave_route()
        self._answer(refusal)

    def lost(self, *, is_reused: bool) -> None:
        self._upstream, route = None, self._route
        assert route is not None
        # An API that dies takes no question along with it: the next one is asked, once, lest a question kill them all.
        is_for_the_next = route.workspace is None and not is_reused and not self._was_lost
        if not self._is_replayable() or not (is_reused or is_for_the_next):
            self.failed(answers.NO_ANSWER)
            return
        self._was_lost = self._was_lost or is_for_the_next
        # Asked anew: on a route that somebody was shown out of meanwhile, nobody would end this.
        asked = self._engine.gate.failed([route], self.request) if is_for_the_next else self._ask()
        self._leave_route()
        self._state = DECIDING
        self._task = self._engine.loop.create_task(self._reach(asked))

    def broken(self) -> None:
        self._upstream = None
        self.end()

    # The end of an exchange, and of the connection.

    def _refuse(self, bad: BadHead) -> None:
        """It cannot be told where the next request begins."""
        self._answer(Refusal(bad.status, "bad_request", str(bad)), was_whole=False)

    def _answer(self, refusal: Refusal, *, was_whole: bool = True) -> None:
        was_whole = was_whole and self._is_whole()
        self._engine.tally.by_proxy[refusal.status // 100] += 1
        is_head = self._head is not None and self._head.method == b"HEAD"
        self._is_last = self._is_last or self._engine.is_draining or not was_whole
        self.transport.write(answers.answer_bytes(refusal, close=self._is_last, with_body=not is_head))
        if self._is_last:
            self._finish(was_whole=was_whole)
        else:
            self._next()

    def _next(self) -> None:
        self._state = HEAD
        self._head = self._body = None
        if self._is_large:
            self._forget_head()
        if not self._buffer and (self._engine.is_draining or self._has_ended):
            self._close()
        elif self._can_write:
            self._await_next()
        else:
            self._read(False)  # who does not take answers asks no more: they would pile up here

    def _await_next(self) -> None:
        self._deadline = self._engine.now() + self._engine.limits.idle_seconds
        if self._buffer:
            self._engine.loop.call_soon(self._read_buffered)
        else:
            self._read(True)

    def end(self) -> None:
        self._leave_upstream()
        super().end()

    def _leave_route(self) -> None:
        if self._route is not None:
            self._route.open.discard(self)
            self._route = None

    def _leave_upstream(self) -> None:
        self._leave_route()
        if self._upstream is not None:
            self._upstream.leave()
            self._upstream = self._upstream_stuck = None
