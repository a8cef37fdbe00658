"""Housekeeping: what happened longer ago than people ask about is forgotten, a bounded piece at a time."""

from datetime import timedelta
from typing import Protocol

_PIECE = 5000


class PastRecords(Protocol):
    """What is kept of the past."""

    async def prune_history(self, older_than: timedelta, limit: int) -> int:
        """Forget up to `limit` of the oldest lines that are older than that; how many."""
        ...

    async def prune_audit(self, older_than: timedelta, limit: int) -> int:
        """The same of the audit log."""
        ...


class Housekeeper:
    """One run forgets one piece of each, so that nothing else waits long for it."""

    def __init__(self, records: PastRecords, *, history: timedelta, audit: timedelta | None) -> None:
        self._records = records
        self._history = history
        self._audit = audit  # None: for ever

    async def run_once(self) -> bool:
        """True when there is more to forget."""
        forgotten = [await self._records.prune_history(self._history, _PIECE)]
        if self._audit is not None:
            forgotten.append(await self._records.prune_audit(self._audit, _PIECE))
        return max(forgotten) >= _PIECE
