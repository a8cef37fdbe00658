"""Values that are kept for a while and taken once, by the hash of a secret that only their holder has.

Losing them costs a new attempt, nothing else.
"""

import json
from collections.abc import Mapping
from typing import ClassVar

from codehub.signals.connect import Redis, answering


class OneTimeValues:
    """One kind of them: subclasses name it, and say how long each is kept."""

    prefix: ClassVar[str]
    seconds: ClassVar[int]

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def keep(self, key: str, value: Mapping[str, str]) -> None:
        with answering():
            await self._client.set(f"{self.prefix}{key}", json.dumps(dict(value)), ex=self.seconds)

    async def take(self, key: str) -> Mapping[str, str] | None:
        """None when there is none, or it was taken already: of several at once, one gets it."""
        with answering():
            kept = await self._client.getdel(f"{self.prefix}{key}")
        found: dict[str, str] | None = json.loads(kept) if kept else None
        return found
