"""Logins that went to an OpenID provider and are not back yet: kept ten minutes, taken once. Lost ones begin anew."""

import json
from collections.abc import Mapping

from codehub.signals.connect import Redis, answering

SECONDS = 600
_PREFIX = "codehub:oidc:"


class RedisFlows:
    """By a key that only the browser's cookie leads to."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def keep(self, key: str, flow: Mapping[str, str]) -> None:
        with answering():
            await self._client.set(f"{_PREFIX}{key}", json.dumps(dict(flow)), ex=SECONDS)

    async def take(self, key: str) -> Mapping[str, str] | None:
        """None when there is none, or it was taken already."""
        with answering():
            kept = await self._client.getdel(f"{_PREFIX}{key}")
        found: dict[str, str] | None = json.loads(kept) if kept else None
        return found
