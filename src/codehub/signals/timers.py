"""Since when each archive has been an orphan: the hash `codehub:gc:orphans`. Losing it starts every wait anew."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from itertools import islice

from codehub.signals.connect import Redis, answering

ORPHANS = "codehub:gc:orphans"
_PAGE = 1000  # an answer of any size would block the server, and us


class RedisTimers:
    """Implements coordinator.ports.OrphanTimers."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def all(self) -> Mapping[str, datetime]:
        found: dict[str, datetime] = {}
        with answering():
            async for key, since in self._client.hscan_iter(ORPHANS, count=_PAGE):
                at = _time_of(since)
                if at is not None:
                    found[key.decode(errors="replace")] = at
        return found

    async def start(self, keys: Collection[str], at: datetime) -> None:
        since = at.isoformat()
        for page in _pages(keys):
            with answering():
                async with self._client.pipeline(transaction=False) as pipeline:
                    for key in page:
                        pipeline.hsetnx(ORPHANS, key, since)
                    await pipeline.execute()

    async def clear(self, keys: Collection[str]) -> None:
        for page in _pages(keys):
            with answering():
                await self._client.hdel(ORPHANS, *page)


def _pages(keys: Collection[str]) -> "list[list[str]]":
    rest = iter(keys)
    return list(iter(lambda: list(islice(rest, _PAGE)), []))


def _time_of(text: bytes) -> datetime | None:
    """None for what is no time with a zone: as good as no timer."""
    try:
        at = datetime.fromisoformat(text.decode())
    except ValueError:
        return None
    return at.astimezone(UTC) if at.tzinfo else None
