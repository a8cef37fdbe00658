"""Activity on its way from proxies to the database: the sorted set `codehub:activity`, when each workspace was used.

A visit only ever moves forward (ZADD GT) and goes only when it was not renewed meanwhile, so taking it in may be
interrupted anywhere. Redis may lose everything, but not silently: a mark beside the set tells.

Only ages come in and go out, so no clock but the database's decides (ADR 18): a proxy tells how long ago it saw a
visit, the scores are by Redis's clock alone, and whoever takes a visit in is told how long ago it was. Where Redis's
clock jumped while a visit waited, its age is not known: then it counts as now.
"""

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import cast
from uuid import UUID

import structlog
from redis.exceptions import ResponseError

from codehub.model.clocks import ClockWatch
from codehub.model.workspace import WorkspaceId
from codehub.signals.connect import Redis, answering

log = structlog.get_logger(__name__)

ACTIVITY = "codehub:activity"
MARK = "codehub:activity:mark"
_PAGE = 1000  # visits in one call

_JUMP_SECONDS = 2.0  # more than two clocks drift apart, or an answer takes, between two looks
_MOST_SCORE = 1e11  # the year 5138: whatever is further away was not written by us

_REPORT = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
for i = 1, #ARGV, 2 do
    redis.call('ZADD', KEYS[1], 'GT', string.format('%.6f', now - tonumber(ARGV[i + 1])), ARGV[i])
end
"""
_OLDEST = """
local time = redis.call('TIME')
return {time[1], time[2], redis.call('ZRANGE', KEYS[1], 0, ARGV[1], 'WITHSCORES')}
"""
# A score that is no later than that of the visit we took was not renewed.
_FORGET = """
for i = 1, #ARGV, 2 do
    local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
    if score and tonumber(score) <= tonumber(ARGV[i + 1]) then
        redis.call('ZREM', KEYS[1], ARGV[i])
    end
end
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """A use of a workspace: how many seconds ago it was, and the score by which it is forgotten."""

    age: float
    score: float


class RedisActivity:
    """Implements coordinator.ports.Activity; `report` is the proxies' side."""

    def __init__(self, client: Redis, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.garbage = 0  # members that were no visit, and were removed
        self._client = client
        self._monotonic = monotonic
        self._report = client.register_script(_REPORT)
        self._oldest = client.register_script(_OLDEST)
        self._forget = client.register_script(_FORGET)
        self._clock = ClockWatch(_JUMP_SECONDS)
        self._has_jumped = True  # whether Redis's clock may have jumped since the set was last empty
        self._mark = ""  # what we last wrote; nobody else writes the same
        self._server = ""

    async def report(self, ages: Mapping[WorkspaceId, float]) -> None:
        """Tell how many seconds ago each was used; earlier visits than those known change nothing.

        When this raises, tell of them again.
        """
        arguments = [part for who, age in ages.items() for part in (str(who), repr(max(0.0, age)))]
        for at in range(0, len(arguments), 2 * _PAGE):
            with answering():
                await self._report(keys=[ACTIVITY], args=arguments[at : at + 2 * _PAGE])

    async def visits(self, limit: int) -> Mapping[WorkspaceId, Visit]:
        """The oldest; empty only when there are none."""
        while True:
            with answering():
                seconds, micros, members = cast(
                    "tuple[bytes, bytes, list[bytes]]", await self._oldest(keys=[ACTIVITY], args=[limit - 1])
                )
            now = int(seconds) + int(micros) / 1e6
            self._notice_jump(now)
            visits: dict[WorkspaceId, Visit] = {}
            garbage: list[bytes] = []
            for member, said in zip(members[::2], members[1::2], strict=True):
                try:
                    score = _score_of(said)
                    visits[_id_of(member)] = Visit(0.0 if self._has_jumped else max(0.0, now - score), score)
                except ValueError:
                    garbage.append(member)
            if garbage:
                await self._throw_away(garbage)
            if not members:
                self._has_jumped = False  # whatever comes from now on is by the clock as it is
            if visits or not garbage:
                return visits

    def _notice_jump(self, now: float) -> None:
        ours = self._monotonic()
        if self._clock.jump(now, ours) != 0:
            self._has_jumped = True
        self._clock.note(now, ours)

    async def forget(self, visits: Mapping[WorkspaceId, Visit]) -> None:
        arguments = [part for who, visit in visits.items() for part in (str(who), repr(visit.score))]
        with answering():
            await self._forget(keys=[ACTIVITY], args=arguments)

    async def is_continuous(self) -> bool:
        """The mark tells of a flush and of an old snapshot, the server's run id of any restart or change of server."""
        mark = secrets.token_hex(16)
        with answering():
            found = cast("bytes | None", await self._client.set(MARK, mark, get=True))
            server = await self._run_id()
        was_ours = found is not None and found.decode(errors="replace") == self._mark and server == self._server
        self._mark, self._server = mark, server
        return was_ours

    async def _run_id(self) -> str:
        try:
            return str((await self._client.info("server")).get("run_id", ""))
        except ResponseError:
            return ""  # a server that does not say; the mark has to do

    async def _throw_away(self, garbage: Collection[bytes]) -> None:
        self.garbage += len(garbage)
        log.warning("not a visit, removed", key=ACTIVITY, count=len(garbage), example=repr(next(iter(garbage))[:80]))
        with answering():
            await self._client.zrem(ACTIVITY, *garbage)


def _score_of(said: bytes) -> float:
    score = float(said)
    if not abs(score) < _MOST_SCORE:
        raise ValueError(said)
    return score


def _id_of(member: bytes) -> WorkspaceId:
    """Exactly as `report` writes it: another spelling could not be forgotten."""
    text = member.decode("ascii")
    identity = UUID(text)
    if str(identity) != text:
        raise ValueError(text)
    return WorkspaceId(identity)
