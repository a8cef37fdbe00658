"""Activity on its way from proxies to the database: the sorted set `codehub:activity`, when each workspace was used.

A visit only ever moves forward (ZADD GT) and goes only when it was not renewed meanwhile, so taking it in may be
interrupted anywhere. Redis may lose everything, but not silently: a mark beside the set tells.
"""

import secrets
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import cast
from uuid import UUID

import structlog
from redis.exceptions import ResponseError

from codehub.model.workspace import WorkspaceId
from codehub.signals.connect import Redis, answering

log = structlog.get_logger(__name__)

ACTIVITY = "codehub:activity"
MARK = "codehub:activity:mark"

# A score that is no later than the visit we took, to the microsecond that a datetime can hold, was not renewed.
_FORGET = """
for i = 1, #ARGV, 2 do
    local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
    if score and tonumber(score) < tonumber(ARGV[i + 1]) + 0.000001 then
        redis.call('ZREM', KEYS[1], ARGV[i])
    end
end
"""


class RedisActivity:
    """Implements coordinator.ports.Activity; `report` is the proxies' side."""

    def __init__(self, client: Redis) -> None:
        self.garbage = 0  # members that were no visit, and were removed
        self._client = client
        self._forget = client.register_script(_FORGET)
        self._mark = ""  # what we last wrote; nobody else writes the same
        self._server = ""

    async def report(self, visits: Mapping[WorkspaceId, datetime]) -> None:
        """Tell of visits; earlier ones than those known change nothing. When this raises, tell of them again."""
        if not visits:
            return
        with answering():
            await self._client.zadd(ACTIVITY, {str(who): at.timestamp() for who, at in visits.items()}, gt=True)

    async def visits(self, limit: int) -> Mapping[WorkspaceId, datetime]:
        """The oldest; empty only when there are none."""
        while True:
            with answering():
                answer = await self._client.zrange(ACTIVITY, 0, limit - 1, withscores=True)
            visits: dict[WorkspaceId, datetime] = {}
            garbage: list[bytes] = []
            for member, score in cast("list[tuple[bytes, float]]", answer):
                try:
                    visits[_id_of(member)] = datetime.fromtimestamp(score, UTC)
                except (ValueError, OverflowError, OSError):
                    garbage.append(member)
            if garbage:
                await self._throw_away(garbage)
            if visits or not garbage:
                return visits

    async def forget(self, visits: Mapping[WorkspaceId, datetime]) -> None:
        arguments = [part for who, at in visits.items() for part in (str(who), repr(at.timestamp()))]
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


def _id_of(member: bytes) -> WorkspaceId:
    """Exactly as `report` writes it: another spelling could not be forgotten."""
    text = member.decode("ascii")
    identity = UUID(text)
    if str(identity) != text:
        raise ValueError(text)
    return WorkspaceId(identity)
