"""Housekeeping: what happened longer ago than people ask about is forgotten, a bounded piece at a time."""

from datetime import timedelta
from typing import Protocol

_PIECE = 5000
_BURIED_AT_ONCE = 1000


class PastRecords(Protocol):
    """What is kept of the past."""

    async def prune_history(self, older_than: timedelta, limit: int) -> int:
        """Forget up to `limit` of the oldest lines that are older than that; how many."""
        ...

    async def prune_audit(self, older_than: timedelta, limit: int) -> int:
        """The same of the audit log."""
        ...

    async def bury(self, older_than: timedelta, limit: int) -> int:
        """Take rows of workspaces away that were deleted longer ago, and of which nothing is left; how many."""
        ...


class Housekeeper:
    """One run forgets one piece of each, so that nothing else waits long for it."""

    def __init__(
        self,
        records: PastRecords,
        *,
        history: timedelta,
        audit: timedelta | None,
        buried_at_once: int = _BURIED_AT_ONCE,
    ) -> None:
        self._records = records
        self._history = history
        self._audit = audit  # None: for ever
        self._buried_at_once = buried_at_once

    async def run_once(self) -> bool:
        """True when there is more to forget."""
        forgotten = [await self._records.prune_history(self._history, _PIECE)]
        if self._audit is not None:
            forgotten.append(await self._records.prune_audit(self._audit, _PIECE))
        buried = await self._records.bury(self._history, self._buried_at_once)
        return max(forgotten) >= _PIECE or buried >= self._buried_at_once
