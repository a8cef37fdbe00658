"""One-time codes that lead a browser to a workspace's own origin: kept a minute, taken once. New ones cost nothing."""

import json
from collections.abc import Mapping

from codehub.signals.connect import Redis, answering

SECONDS = 60
_PREFIX = "codehub:enter:"
_COUNT = "codehub:enter-count:"
_COUNT_SECONDS = 15


class RedisCodes:
    """By the hash of a code, which only the browser has."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def keep(self, key: str, told: Mapping[str, str | int | None], visitor: str) -> int:
        """How many were drawn for this visitor in a few seconds: many are a browser that goes round in circles."""
        with answering():
            async with self._client.pipeline(transaction=True) as pipeline:
                pipeline.set(f"{_PREFIX}{key}", json.dumps(dict(told)), ex=SECONDS)
                pipeline.incr(f"{_COUNT}{visitor}")
                pipeline.expire(f"{_COUNT}{visitor}", _COUNT_SECONDS)
                answers = await pipeline.execute()
        return int(answers[1])

    async def take(self, key: str) -> Mapping[str, str | int | None] | None:
        """None when there is none, or it was taken already."""
        with answering():
            kept = await self._client.getdel(f"{_PREFIX}{key}")
        found: dict[str, str | int | None] | None = json.loads(kept) if kept else None
        return found
