"""Housekeeping: history older than people ask about is forgotten, a bounded piece at a time."""

from datetime import timedelta
from typing import Protocol

_PIECE = 5000


class HistoryRecords(Protocol):
    """What is kept of the past."""

    async def prune_history(self, older_than: timedelta, limit: int) -> int:
        """Forget up to `limit` of the oldest lines that are older than that; how many."""
        ...


class Housekeeper:
    """One run forgets one piece, so that nothing else waits long for it."""

    def __init__(self, records: HistoryRecords, *, history_retention: timedelta) -> None:
        self._records = records
        self._retention = history_retention

    async def run_once(self) -> bool:
        """True when there is more to forget."""
        return await self._records.prune_history(self._retention, _PIECE) >= _PIECE
