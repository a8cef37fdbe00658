"""The hub: what changes reaches every open dashboard of its owner, through one subscription for the whole process.

- What is heard only says where to look; what is told is what the rows say. Hints may be lost, doubled or invented.
- A stream joins its user's audience first and is then shown everything: nothing falls in between.
- Many changes are one read: for the whole process at most every `read_seconds`, for one user every `user_seconds`.
- After a gap every audience is read anew, and told what differs from what it was told before; while Redis is away this
  happens every `poll_seconds`. Rows are compared by their stamp, so that this reads in full only what was written.
- What waits for a stream is at most the newest state of each of its workspaces, never a queue; a stream whose other end
  takes nothing for `stall_seconds` is dropped. Whoever comes back is shown everything.
- One question for all sessions and tokens says which streams must end. PostgreSQL or Redis being away ends none.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Self
from uuid import UUID

import structlog

from codehub.errors import OverLimit, Unavailable
from codehub.model.workspace import UserId, WorkspaceId
from codehub.services.actors import Actor
from codehub.services.live import Credential, LiveWorkspaces
from codehub.signals.subscriptions import Told, subscribe
from codehub.together import together
from codehub.web.context import Context
from codehub.web.stream import HEARTBEAT, Stream, event
from codehub.web.troubles import Troubles

log = structlog.get_logger(__name__)

_AUDIENCES_AT_ONCE = 50  # that are read anew together, so that a single change does not wait for all of them
_ROWS_AT_ONCE = 100  # that are made into events before others get a turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds, and how many streams one user may have."""

    streams_per_user: int = 20
    heartbeat_seconds: float = 30.0
    read_seconds: float = 0.02
    user_seconds: float = 0.05
    stall_seconds: float = 10.0
    credential_seconds: float = 3.0
    poll_seconds: float = 2.0
    again_seconds: float = 1.0  # after an outage


@dataclass(slots=True, eq=False)
class _Audience:
    """The open streams of one user, and what they were told."""

    user_id: UserId
    streams: set[Stream] = field(default_factory=set)
    told: dict[WorkspaceId, bytes] = field(default_factory=dict)
    stamps: dict[WorkspaceId, str] = field(default_factory=dict)
    changed: set[WorkspaceId] = field(default_factory=set)
    is_stale: bool = True
    not_before: float = 0.0

    def tell(self, which: WorkspaceId, told: bytes) -> None:
        for stream in self.streams:
            if not stream.is_new:
                stream.put(which, told)


@dataclass(slots=True)
class HubStatus:
    """What has happened so far."""

    streams: int = 0
    dropped: int = 0  # because the other end took nothing
    reads: int = 0
    told: int = 0  # events, each once for all streams of its audience
    gaps: int = 0
    is_deaf: bool = True  # Redis is not heard: changes are found by reading anew


class Hub:
    """One for each process that serves streams."""

    def __init__(
        self,
        source: LiveWorkspaces,
        subscribe: Callable[[], AsyncGenerator[Told | None, None]],
        pace: Pace | None = None,
    ) -> None:
        self.status = HubStatus()
        self.pace = pace or Pace()
        self._source = source
        self._subscribe = subscribe
        self._audiences: dict[UserId, _Audience] = {}
        self._due: dict[UserId, _Audience] = {}  # those with something to read, the longest waiting first
        self._something = asyncio.Event()
        self._is_over = False
        self._troubles = Troubles(log)

    @classmethod
    def over(
        cls, context: Context, pace: Pace | None = None, source_type: type[LiveWorkspaces] = LiveWorkspaces
    ) -> Self:
        """What a server has, whose `app.state.hub` it is."""
        settings = context.settings
        source = source_type(
            context.pool,
            context.redis,
            retention=timedelta(seconds=settings.gc.trash_retention_seconds),
            idle=timedelta(seconds=settings.accounts.session_idle_seconds),
        )
        return cls(source, lambda: subscribe(context.redis, settings.redis_channels.sse_prefix), pace)

    async def run(self) -> None:
        """For ever; being cancelled ends every stream."""
        try:
            await together(
                {
                    "subscription": self._hear(),
                    "fallback": self._poll(),
                    "telling": self._tell(),
                    "credentials": self._check_credentials(),
                }
            )
        finally:
            self._is_over = True
            for stream in self._streams():
                stream.end()

    @asynccontextmanager
    async def joined(self, actor: Actor) -> AsyncIterator[Stream]:
        """A stream of the actor's own workspaces. Raises OverLimit when they have too many, Unavailable at the end."""
        if self._is_over:
            raise Unavailable("CodeHub is stopping.", "Try again in a moment.")
        audience = self._audiences.setdefault(actor.user_id, _Audience(actor.user_id))
        if len(audience.streams) >= self.pace.streams_per_user:
            raise OverLimit(
                f"You have {len(audience.streams)} open event streams, which is the most there may be.",
                "Close some dashboards or programs that watch your workspaces.",
                code="too_many_streams",
                details={"limit": self.pace.streams_per_user},
                retry_after=5,
            )
        stream = Stream(Credential(actor.kind, UUID(actor.credential_id)))
        audience.streams.add(stream)
        self.status.streams += 1
        self._read_anew([audience])
        try:
            yield stream
        finally:
            self.status.streams -= 1
            audience.streams.discard(stream)
            if not audience.streams:
                self._audiences.pop(actor.user_id, None)
                self._due.pop(actor.user_id, None)

    def drop(self, stream: Stream) -> None:
        """Its other end takes nothing."""
        stream.drop()
        self.status.dropped += 1

    def _streams(self) -> list[Stream]:
        return [stream for audience in self._audiences.values() for stream in audience.streams]

    # -- what may have changed ----------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        while True:
            try:
                async with aclosing(self._subscribe()) as heard:
                    async for told in heard:
                        self._take(told)
            except Exception as error:  # noqa: BLE001 - Redis only carries hints
                self._troubles.begin("Redis is not heard", error)
            self.status.is_deaf = True
            await asyncio.sleep(self.pace.again_seconds)

    def _take(self, told: Told | None) -> None:
        if told is None:
            self.status.is_deaf = False
            self.status.gaps += 1
            self._troubles.end("Redis is not heard")
            self._read_anew(self._audiences.values())
        elif (audience := self._audiences.get(told.user_id)) is not None:
            audience.changed.add(told.workspace_id)
            self._is_due(audience)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self.pace.poll_seconds)
            if self.status.is_deaf:
                self._read_anew(self._audiences.values())

    def _read_anew(self, audiences: Iterable[_Audience]) -> None:
        for audience in audiences:
            audience.is_stale = True
            self._is_due(audience)

    def _is_due(self, audience: _Audience) -> None:
        self._due.setdefault(audience.user_id, audience)
        self._something.set()

    # -- telling ------------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._something.wait()
            now = loop.time()
            taken = [audience for audience in self._due.values() if audience.not_before <= now or _has_new(audience)]
            stale = list(islice((each for each in taken if each.is_stale), _AUDIENCES_AT_ONCE))
            changed = [each for each in taken if not each.is_stale]
            for audience in (*stale, *changed):
                del self._due[audience.user_id]
                audience.not_before = now + self.pace.user_seconds
            if not self._due:
                self._something.clear()
            try:
                await self._tell_changes(changed)
                await self._tell_everything(stale)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing is forgotten and the next read may do
                self._troubles.begin("streams cannot be told of changes", error)
                self._read_anew(each for each in (*stale, *changed) if each.streams)
                await asyncio.sleep(self.pace.again_seconds)
            else:
                self._troubles.end("streams cannot be told of changes")
                await asyncio.sleep(self.pace.read_seconds)

    async def _tell_changes(self, audiences: Sequence[_Audience]) -> None:
        ids = {which: audience for audience in audiences for which in audience.changed}
        for audience in audiences:
            audience.changed = set()
        await self._tell_of(ids)

    async def _tell_everything(self, audiences: Sequence[_Audience]) -> None:
        """What differs from what was told before; to new streams all of it, and then a heartbeat."""
        if not audiences:
            return
        new: dict[_Audience, list[Stream]] = {}
        ids: dict[WorkspaceId, _Audience] = {}
        for audience in audiences:
            audience.is_stale = False
            new[audience] = [stream for stream in audience.streams if stream.is_new]
            ids |= dict.fromkeys(audience.changed, audience)
            audience.changed = set()
        self.status.reads += 1
        found = await self._source.stamps([audience.user_id for audience in audiences])
        for audience in audiences:
            stamps = found.get(audience.user_id, {})
            ids |= {which: audience for which, stamp in stamps.items() if audience.stamps.get(which) != stamp}
            ids |= {which: audience for which in audience.told if which not in stamps}
        await self._tell_of(ids)
        for audience, streams in new.items():
            audience.stamps = dict(found.get(audience.user_id, {}))
            for stream in streams:
                stream.is_new = False
                for which, told in audience.told.items():
                    stream.put(which, told)
                stream.put(None, HEARTBEAT)

    async def _tell_of(self, ids: Mapping[WorkspaceId, _Audience]) -> None:
        rest = iter(ids)
        while page := list(islice(rest, _ROWS_AT_ONCE)):
            self.status.reads += 1
            found = await self._source.rows(page, with_progress=not self.status.is_deaf)
            rows = {row.id: row for row in found}
            for which in page:
                audience, row = ids[which], rows.get(which)
                # Whose it is says the row, whatever was heard.
                self._show(audience, which, row.json if row is not None and row.owner == audience.user_id else None)

    def _show(self, audience: _Audience, which: WorkspaceId, body: bytes | None) -> None:
        audience.stamps.pop(which, None)  # of another write than the one that was just read, perhaps
        if body is None:
            if audience.told.pop(which, None) is None:
                return
            told = event("workspace_deleted", json.dumps({"id": str(which)}).encode())
        else:
            told = event("workspace_updated", body)
            if audience.told.get(which) == told:
                return
            audience.told[which] = told
        self.status.told += 1
        audience.tell(which, told)

    # -- whether they may still listen --------------------------------------------------------------------------------

    async def _check_credentials(self) -> None:
        while True:
            await asyncio.sleep(self.pace.credential_seconds)
            streams = self._streams()
            try:
                alive = set(await self._source.alive({stream.credential for stream in streams})) if streams else set()
            except Exception as error:  # noqa: BLE001 - not knowing ends nothing: without the database nothing is told
                self._troubles.begin("sessions cannot be checked", error)
                continue
            self._troubles.end("sessions cannot be checked")
            for stream in streams:
                if stream.credential not in alive:
                    stream.end()


def _has_new(audience: _Audience) -> bool:
    return any(stream.is_new for stream in audience.streams)
