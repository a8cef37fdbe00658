"""Logout tokens of an OpenID provider that were obeyed: each counts once, for as long as it could be sent again."""

from codehub.signals.connect import Redis, answering

_PREFIX = "codehub:logout-token:"


class RedisLogoutTokens:
    """By a hash of their issuer and id."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def is_first(self, key: str, seconds: int) -> bool:
        """Whether it was not seen before; of several at once, one is first."""
        with answering():
            return bool(await self._client.set(f"{_PREFIX}{key}", b"1", ex=seconds, nx=True))

    async def forget(self, key: str) -> None:
        """It could not be obeyed, and may be sent again."""
        with answering():
            await self._client.delete(f"{_PREFIX}{key}")
