"""A connection from a browser or a program: one request after the other, each on its way to where the gate says.

It is in one of these states; `check` ends whatever takes too long in any of them:

    head ──> deciding ──> exchange ──> head …            (or a tunnel, which takes the connection over)
      └─────────┴─────────────┴──> lingering ──> closed
"""

import time
from collections.abc import Awaitable

import structlog

from codehub.web.proxy import answers
from codehub.web.proxy.activity import is_request_activity
from codehub.web.proxy.again import LONGEST_BYTES, Again, may_come_again
from codehub.web.proxy.answering import Answering
from codehub.web.proxy.connection import DECIDING, EXCHANGE, HEAD
from codehub.web.proxy.engine import Engine
from codehub.web.proxy.framing import request_body
from codehub.web.proxy.headers import request_fields, sent_target
from codehub.web.proxy.heads import BadHead, Fields, RequestHead, read_request
from codehub.web.proxy.places import Origin
from codehub.web.proxy.ports import Decision, Refusal, Route
from codehub.web.proxy.reaching import admitted, reach
from codehub.web.proxy.requests import request_of
from codehub.web.proxy.upstream import Upstream

log = structlog.get_logger(__name__)

_REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE"})


class Client(Answering):
    """One connection."""

    __slots__ = ("_again", "_known", "_sent")

    def __init__(self, engine: Engine, origin: Origin | None = None) -> None:
        super().__init__(engine, origin)
        self._known: dict[bytes, Fields] = {}
        self._again: Again | None = None
        self._sent: tuple[Fields | None, Route | None, bool, bytes] = (
            None,
            None,
            False,
            b"",
        )  # what the last request became

    # What the transport tells.

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state is HEAD:
            again = self._again
            if again is None or self._buffer or not self._go_again(again, data):
                self._read_head(self._buffer + data if self._buffer else data)
        elif state is EXCHANGE and not self._is_whole():
            self._send_body(data)
        elif state in (EXCHANGE, DECIDING):
            self._buffer += data
            if len(self._buffer) > self._engine.limits.pipelined_bytes:
                self._read(False)

    def eof_received(self) -> bool:
        """It sends no more; what it asked for it still gets."""
        self._has_ended = True
        is_busy = self._state in (EXCHANGE, DECIDING) or bool(self._buffer)
        if not is_busy or self._engine.is_tls:
            return False
        if self._state is EXCHANGE and not self._is_whole():
            self.end()
            return False
        if self._state is HEAD:
            self._engine.loop.call_soon(self._read_buffered)  # requests that wait their turn, or half of one
        self._deadline = self._engine.now() + self._engine.limits.half_closed_seconds
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._task is not None:
            self._task.cancel()
        self._leave_upstream()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._upstream is not None:
            self._upstream.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._upstream is not None:
            if self._has_ended:
                self._deadline = self._engine.now() + self._engine.limits.half_closed_seconds
            self._upstream.resume()
        elif self._state is HEAD:
            self._await_next()

    # The request.

    def _read_head(self, data: bytes) -> None:
        limits = self._engine.limits
        end = data.find(b"\r\n\r\n", 0, limits.head_bytes)
        if len(data) > limits.target_bytes and data.find(b"\r\n", 0, limits.target_bytes) < 0:
            self._refuse(BadHead("The target of the request is too long.", 414))
            return
        if end < 0:
            if len(data) >= limits.head_bytes:
                self._refuse(BadHead("The head of the request is too large.", 431))
                return
            if self._has_ended:
                self._close()
                return
            if not self._buffer:
                self._deadline = self._engine.now() + limits.head_seconds
            self._buffer = data
            return
        try:
            head = read_request(data[:end], self._known)
        except BadHead as bad:
            self._refuse(bad)
            return
        self._buffer = data[end + 4 :]
        self._is_large = end > LONGEST_BYTES
        self._begin(head)

    def _go_again(self, again: Again, data: bytes) -> bool:
        """The short way, for a head that is known but for its path; whether it was taken."""
        engine, route = self._engine, again.route
        now = engine.now()
        if now >= route.good_until or len(data) > LONGEST_BYTES or not self._can_write:
            return False
        sent = again.sent(data)
        upstream = engine.pool.take(route.key, now, replayable=True) if sent is not None else None
        if sent is None or upstream is None:
            return False
        route.open.add(self)
        engine.tally.at_once += 1
        request = self.request = again.request
        self._head = again.head
        self._route, self._upstream, self._upstream_stuck = route, upstream, None
        self._state = EXCHANGE
        self._has_answered = self._was_lost = False
        self._takes_whole = again.takes_whole
        self._deadline = now + engine.limits.answer_seconds
        self._counts = route.port is not None or is_request_activity(request.method, request.target)
        if self._counts:
            route.used_at = now
        upstream.begin(self, sent)
        return True

    def _begin(self, head: RequestHead) -> None:
        engine = self._engine
        self._deadline = None
        self._has_answered = self._was_lost = False
        self._head = head
        fields = head.fields
        self._body = request_body(fields) if fields.length or fields.is_chunked else None
        self._watch(is_whole=self._body is None)
        self._is_last = head.minor == 0 or b"close" in fields.connection
        self._takes_whole = not self._is_last and self._body is None and head.method != b"HEAD" and not fields.is_page
        request = self.request = request_of(
            head, self._address, self._here, is_tls=engine.is_tls, trusted=engine.trusted if self._is_trusted else None
        )
        if engine.is_secure is not None:
            request.is_secure = engine.is_secure
        self._state = DECIDING
        if head.method in _REFUSED_METHODS:
            self._answer(answers.BAD_METHOD)
        elif fields.expect and fields.expect != b"100-continue":
            self._answer(answers.BAD_EXPECT)
        else:
            self._go(self._ask())

    def _watch(self, *, is_whole: bool) -> None:
        """Whether it still has to send something before it counts as one that asks."""
        if is_whole is not self._is_unasked:
            return
        self._is_unasked = not is_whole
        if is_whole:
            self._engine.places.asked(self)
        elif self._origin is not None:
            self._engine.places.asks(self, self._origin, self._engine.now())

    def _ask(self) -> Decision | Awaitable[Decision]:
        try:
            return self._engine.gate.route(self.request)
        except Exception:
            log.exception("the gate failed")
            return answers.FAILED

    def _go(self, decision: Decision | Awaitable[Decision]) -> None:
        """At once where nothing has to be waited for."""
        if isinstance(decision, Route):
            decision = admitted(decision, self.request)
        if isinstance(decision, Refusal):
            self._answer(decision)
            return
        if isinstance(decision, Route):
            upstream = self._engine.pool.take(decision.key, self._engine.now(), replayable=self._is_replayable())
            if upstream is not None:
                decision.open.add(self)
                self._engine.tally.at_once += 1
                self._send(decision, upstream)
                return
        self._task = self._engine.loop.create_task(self._reach(decision))

    async def _reach(self, decision: Decision | Awaitable[Decision]) -> None:
        started = time.monotonic()
        reached = await reach(self._engine, decision, self.request, self)
        self._engine.tally.waited(time.monotonic() - started)
        self._task = None
        if isinstance(reached, Refusal):
            self._answer(reached)
        else:
            self._send(*reached)

    def _send(self, route: Route, upstream: Upstream) -> None:
        head = self._head
        assert head is not None
        self._route, self._upstream, self._upstream_stuck = route, upstream, None
        self._state = EXCHANGE
        self._counts = route.port is not None or is_request_activity(self.request.method, self.request.target)
        if self._counts:
            route.used_at = self._engine.now()
        fields = head.fields
        was, is_upgrade = self._sent, self.request.is_upgrade
        if was[0] is not fields or was[1] is not route or was[2] is not is_upgrade:
            self._sent = (fields, route, is_upgrade, request_fields(fields, self.request, route))
            if route.workspace is not None and self._origin is not None:
                self._engine.know(self._origin)
            self._again = None
        elif self._again is None and not self._is_large and may_come_again(head, self.request, route):
            (block,) = self._known
            self._again = Again(head, self.request, route, block, self._sent[3])
        if not self._can_write:
            upstream.pause()
        target = sent_target(head.target, route) if route.strip else head.target
        upstream.begin(self, b"%b %b HTTP/1.1\r\n%b" % (head.method, target, self._sent[3]))
        if self._body is not None:
            if route.workspace is not None:
                self._watch(is_whole=True)
            if self._buffer:
                data, self._buffer = self._buffer, b""
                self._send_body(data)
            else:
                self._deadline = self._engine.now() + self._engine.limits.body_seconds
            if self._has_ended and not self._body.done:  # it will never be whole
                self.end()
            self._read(True)
        else:
            self._await_answer()

    def _await_answer(self) -> None:
        limits = self._engine.limits
        self._deadline = self._engine.now() + (limits.half_closed_seconds if self._has_ended else limits.answer_seconds)

    def _send_body(self, data: bytes) -> None:
        body, upstream, route = self._body, self._upstream, self._route
        assert body is not None
        assert upstream is not None
        assert route is not None
        try:
            out = body.feed(data)
        except BadHead as bad:
            self._leave_upstream()
            if self._has_answered:
                self.end()
            else:
                self._refuse(bad)
            return
        if out:
            upstream.transport.write(out)
        now = self._engine.now()
        if self._counts:
            route.used_at = now
        if body.done:
            self._watch(is_whole=True)
            self._buffer, body.rest = body.rest, b""
            if self._has_answered:
                self._deadline = None
            else:
                self._await_answer()
        else:
            self._deadline = now + self._engine.limits.body_seconds

    def _read_buffered(self) -> None:
        if self._state is HEAD and self._buffer:
            data, self._buffer = self._buffer, b""
            self._read(True)
            self._read_head(data)

    def _forget_head(self) -> None:
        del self.request
        self._known, self._sent, self._again = {}, (None, None, False, b""), None
