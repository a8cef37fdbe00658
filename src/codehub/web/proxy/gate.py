"""The gate: who may go where, from memory (ADR 8).

- A request of a visitor who was here a moment ago costs no round trip; everybody else is asked for, many at once in
  one statement.
- All visitors are looked at again in one statement every `check_seconds`; those of a workspace that something is heard
  about at once. Whoever may no longer be there is cut off, also in the middle of something.
- Not knowing never opens a door. While the database is away, what was confirmed within `trust_seconds` goes on, and
  what is open stays open for `open_seconds`; anything else is the API's to answer.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol
from uuid import UUID

import structlog

from codehub.db.doors import Door, Opened
from codehub.model.workspace import WorkspaceId
from codehub.signals.subscriptions import Told
from codehub.together import together
from codehub.web.hosts import Hosts
from codehub.web.proxy.backends import Backends
from codehub.web.proxy.confining import is_report_of, is_service_worker
from codehub.web.proxy.knocking import Knock, is_short, knock_of, signature_of
from codehub.web.proxy.ports import Decision, Refusal, Request, Route
from codehub.web.proxy.visitors import Visitor, Visitors
from codehub.web.troubles import Troubles

log = structlog.get_logger(__name__)

_DOORS_AT_ONCE = 1000
_MOST_REMEMBERED = 20_000
_MOST_WAITING = 10_000  # for an answer of the database; beyond it the API says that there is none
_ANSWER_SECONDS = 5.0  # longer than a statement may take
_NO_SERVICE_WORKER = Refusal(403, "service_worker", "Workspaces have no service workers in path mode.")
_NO_REPORTS = Refusal(403, "report", "Browsers report to no workspace in path mode.")
_UNANSWERED = "who may enter cannot be looked up"


class Asking(Protocol):
    """Implemented by services.visits.Doors; raises Unavailable when there is no answer."""

    async def opened(self, asked: Sequence[Door]) -> Mapping[Door, Opened]: ...

    async def touch(self, sessions: Sequence[UUID], tokens: Sequence[UUID]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds."""

    check_seconds: float = 2.0
    trust_seconds: float = 30.0  # how old what we know may be
    open_seconds: float = 300.0  # … for what is open already
    forget_seconds: float = 60.0  # without use
    again_seconds: float = 1.0  # after an outage


@dataclass(slots=True)
class GateStatus:
    """What has happened so far."""

    statements: int = 0
    from_memory: int = 0
    is_deaf: bool = True  # Redis is not heard: what changes is found by looking again


@dataclass(slots=True, eq=False)
class _Look:
    """A statement that is under way."""

    asked_at: float
    heard: set[WorkspaceId] = field(default_factory=set)  # what was heard of since: its answer may be older


class Gate:
    """One for each process that has the public port. Implements ports.Gate."""

    def __init__(
        self,
        doors: Asking,
        subscribe: Callable[[], AsyncGenerator[Told | None, None]],
        hosts: Hosts,
        backends: Backends,
        pace: Pace | None = None,
        *,
        is_guarded: bool = True,
    ) -> None:
        self.status = GateStatus()
        self.pace = pace or Pace()
        self.visitors = Visitors(self.pace.trust_seconds, is_guarded)
        self._doors = doors
        self._subscribe = subscribe
        self._hosts = hosts
        self._backends = backends
        # The parts of a head that decide, as they were sent, to whom that led: all that most requests need.
        self._seen: dict[tuple[object, ...], Visitor] = {}
        self._asked: dict[Knock, asyncio.Future[bool]] = {}
        self._suspects: set[Knock] = set()
        self._looks: set[_Look] = set()
        self._something = asyncio.Event()
        self._troubles = Troubles(log)

    # -- the engine's side --------------------------------------------------------------------------------------------

    def route(self, request: Request) -> Decision | Awaitable[Decision]:
        trusted = time.monotonic() - self.pace.trust_seconds
        head = signature_of(request)
        visitor = self._seen.get(head)
        if visitor is not None and visitor.is_known(trusted):
            self.status.from_memory += 1
            return _NO_REPORTS if visitor.route.policy and is_report_of(request) else visitor.route
        knock = knock_of(request, self._hosts)
        if knock is None:
            return self._backends.route()
        if knock.strip and self.visitors.is_guarded:
            if is_service_worker(request.headers):
                return _NO_SERVICE_WORKER
            if is_report_of(request):
                return _NO_REPORTS
        visitor = self.visitors.get(knock)
        if visitor is not None and visitor.is_known(trusted):
            self.status.from_memory += 1
            if is_short(request):
                self._remember(head, visitor)
            return visitor.route
        return self._ask(knock)

    def failed(self, tried: Sequence[Route], request: Request) -> Decision:  # noqa: ARG002 - of every request alike
        """The API, which has a page for that; and what was known is looked at again."""
        workspace = tried[-1].workspace
        if workspace is None:
            return self._backends.failed(tried)
        self._suspect(workspace)
        return self._backends.route(unreachable=True)

    async def _ask(self, knock: Knock) -> Decision:
        if _UNANSWERED in self._troubles and (visitor := self._trusted(knock)) is not None:
            self._suspects.add(knock)  # looked at as soon as that can be, and until then nobody waits for it
            self._something.set()
            return visitor.route
        answer = self._asked.get(knock)
        if answer is None and len(self._asked) >= _MOST_WAITING:
            return self._backends.route()
        if answer is None:
            answer = self._asked[knock] = asyncio.get_running_loop().create_future()
            self._something.set()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                is_answered = await asyncio.shield(answer)
        except TimeoutError:
            is_answered = False
        visitor = self.visitors.get(knock) if is_answered else self._trusted(knock)
        return self._backends.route() if visitor is None else visitor.route

    def _trusted(self, knock: Knock) -> Visitor | None:
        """Who was confirmed lately, whatever may have been heard since."""
        visitor = self.visitors.get(knock)
        if visitor is None or visitor.confirmed_at < time.monotonic() - self.pace.trust_seconds:
            return None
        return visitor

    def _remember(self, head: tuple[object, ...], visitor: Visitor) -> None:
        if len(self._seen) >= _MOST_REMEMBERED:  # cookies that change with each request
            self._seen.clear()
        self._seen[head] = visitor

    # -- looking ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled; then nobody is left inside."""
        try:
            await together({"gate: look": self._look(), "gate: check": self._check(), "gate: hear": self._hear()})
        finally:
            for answer in self._asked.values():
                answer.cancel()
            for visitor in self.visitors.all():
                self.visitors.show_out(visitor)

    async def _look(self) -> None:
        """Whoever is asked for, and whoever something was heard about."""
        while True:
            await self._something.wait()
            self._something.clear()
            asked = list(islice(self._asked, _DOORS_AT_ONCE))
            suspects = list(islice(self._suspects.difference(asked), _DOORS_AT_ONCE))
            self._suspects.difference_update(asked, suspects)
            is_answered = await self._look_at([*asked, *suspects])
            for knock in asked:
                answer = self._asked.pop(knock)
                if not answer.done():
                    answer.set_result(is_answered)
            if self._asked or self._suspects:
                self._something.set()

    async def _check(self) -> None:
        """Everybody who is inside."""
        while True:
            await asyncio.sleep(self.pace.check_seconds)
            now = time.monotonic()
            self.visitors.forget_idle(now - self.pace.forget_seconds)
            self._seen = {head: each for head, each in self._seen.items() if not each.is_out}
            rest = iter([visitor.knock for visitor in self.visitors.all()])
            while page := list(islice(rest, _DOORS_AT_ONCE)):
                if not await self._look_at(page):
                    break
            await self._touch()
            self.visitors.show_out_unconfirmed(time.monotonic() - self.pace.open_seconds)

    async def _look_at(self, knocks: Sequence[Knock]) -> bool:
        """In one statement; whether it was answered."""
        if not knocks:
            return True
        look = _Look(time.monotonic())
        self._looks.add(look)
        self.status.statements += 1
        try:
            found = await self._doors.opened(list({knock.door for knock in knocks}))
        except Exception as error:  # noqa: BLE001 - not knowing opens nothing, and must not end this loop
            self._troubles.begin(_UNANSWERED, error)
            return False
        finally:
            self._looks.discard(look)
        self._troubles.end(_UNANSWERED)
        for knock in knocks:
            self.visitors.settle(knock, found.get(knock.door), look.asked_at, is_new=knock in self._asked)
        for workspace in look.heard.intersection(knock.door.to.workspace for knock in knocks):
            self._suspect(workspace)  # for whoever was let in only now
        return True

    async def _touch(self) -> None:
        sessions, tokens = self.visitors.logins_in_use(time.monotonic() - self.pace.forget_seconds)
        if not sessions and not tokens:
            return
        self.status.statements += 1
        try:
            await self._doors.touch(sessions, tokens)
        except Exception as error:  # noqa: BLE001 - it is done again in a moment
            self._troubles.begin("logins in use cannot be noted", error)
        else:
            self._troubles.end("logins in use cannot be noted")

    # -- hearing ------------------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        while True:
            try:
                async with aclosing(self._subscribe()) as heard:
                    async for told in heard:
                        self.status.is_deaf = False
                        self._troubles.end("Redis is not heard")
                        for workspace in self._all() if told is None else [told.workspace_id]:
                            self._suspect(workspace)
            except Exception as error:  # noqa: BLE001 - Redis only carries hints
                self._troubles.begin("Redis is not heard", error)
            self.status.is_deaf = True
            await asyncio.sleep(self.pace.again_seconds)

    def _all(self) -> Iterable[WorkspaceId]:
        """Which somebody is in, or asks for."""
        return {*self.visitors.workspaces(), *(knock.door.to.workspace for knock in self._asked)}

    def _suspect(self, workspace: WorkspaceId) -> None:
        """Something may have changed: who is inside is looked at now, and asked for before they go on."""
        for look in self._looks:
            look.heard.add(workspace)
        for visitor in self.visitors.of(workspace):
            visitor.suspect(time.monotonic())
            self._suspects.add(visitor.knock)
            self._something.set()
