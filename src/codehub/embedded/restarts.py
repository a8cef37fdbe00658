"""When a server that died is started again, and when that is given up.

Deaths in quick succession are followed by longer and longer pauses; a life of some length starts over. What counts
against a server is only a life without progress. PostgreSQL that answers, or has written a checkpoint, has recovered
its data, so it may die as often as it likes; Valkey carries hints alone, so nothing is ever given up for its sake.
A disk without room counts against nobody: room comes back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)
STEADY_SECONDS = 60.0


@dataclass
class Restarts:
    """Of one server."""

    is_needed: bool
    """Whether CodeHub can do nothing without it: then it is given up in the end, since the user should know."""
    pauses: Sequence[float] = field(default=PAUSES)
    _quick: int = 0  # deaths since it last lived long enough
    _fruitless: int = 0  # … since it last made progress

    def progressed(self) -> None:
        """It answered, or has recovered its data at least."""
        self._fruitless = 0

    def died(self, *, seconds: float, is_full: bool = False) -> None:
        """After so long a life; 0 is an attempt that came to nothing."""
        self._quick = 1 if seconds >= STEADY_SECONDS else self._quick + 1
        self._fruitless += 0 if is_full else 1

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return self.pauses[min(self._quick, len(self.pauses)) - 1]

    @property
    def is_hopeless(self) -> bool:
        return self.is_needed and self._fruitless > len(self.pauses)
