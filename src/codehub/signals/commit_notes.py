"""The controller's newest commit, noted outside of the database: `codehub:commits:{database}`.

A hint. Lost, or from an old snapshot of Redis, it only makes less be noticed. It does not expire: a database may go
back by days. Databases that share a Redis have notes of their own.
"""

from typing import cast

from codehub.signals.connect import Redis, answering

KEY = "codehub:commits:"
_MOST = 2**63 - 1  # what the database can count


class RedisCommitNotes:
    """The leader's side. Both raise Unavailable when Redis does not answer."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def leave(self, database: str, commits: int) -> None:
        with answering():
            await self._client.set(f"{KEY}{database}", commits)

    async def read(self, database: str) -> int | None:
        """None of what is not of our making."""
        with answering():
            noted = cast("bytes | None", await self._client.get(f"{KEY}{database}"))
        if noted is None or not noted.isdigit() or len(noted) > len(str(_MOST)):
            return None
        return min(int(noted), _MOST)
