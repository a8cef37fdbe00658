"""How often to tick, and how fast to walk through the workspaces that need nothing.

Ticks are frequent while something happens and for a while after a wake-up, rare otherwise. The sweep looks at every
workspace once per pass, a few at a time, so that its cost is the same at every tick; a new leader's first pass is
quick, because nobody knows what happened before it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from codehub.model.workspace import Workspace, WorkspaceId

_LEAST_PER_SECOND = 2.0  # small installations are walked through in seconds
_FAST = 1000  # rows per tick of the first pass
_LONGEST_STEP_SECONDS = 60.0  # after a long pause the sweep goes on, it does not catch up


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds, from configuration."""

    idle_interval: float = 15.0
    active_interval: float = 1.0
    active_duration: float = 30.0
    sweep_interval: float = 7200.0


def _time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Pacer:
    """When the next tick is due."""

    pace: Pace
    is_operating: bool = False  # an operation is in progress, or the sweep catches up
    _active_until: float = 0.0

    def woken(self) -> None:
        self._active_until = _time() + self.pace.active_duration

    def period(self) -> float:
        active = self.is_operating or _time() < self._active_until
        return self.pace.active_interval if active else self.pace.idle_interval


@dataclass
class Sweep:
    """Where the walk is, and how far the next step goes."""

    pace: Pace
    after: WorkspaceId | None = None
    is_first_pass: bool = True
    _total: int = 0  # rows of the last whole pass
    _counted: int = 0
    _credit: float = 0.0
    _stepped_at: float | None = field(default=None)

    def size(self) -> int:
        """How many rows to look at in this tick."""
        if self.is_first_pass:
            return _FAST
        now = _time()
        elapsed = min(now - (self._stepped_at or now), _LONGEST_STEP_SECONDS)
        self._stepped_at = now
        rate = max(self._total / self.pace.sweep_interval, _LEAST_PER_SECOND)
        self._credit = min(self._credit + rate * elapsed, float(_FAST))
        return int(self._credit)

    def stepped(self, rows: Sequence[Workspace], asked: int) -> None:
        """These were read when `asked` were wanted; fewer means that the pass is over."""
        if asked == 0:
            return
        self._credit = max(0.0, self._credit - len(rows))
        self._counted += len(rows)
        if len(rows) == asked:
            self.after = rows[-1].id
            return
        self._total, self._counted = self._counted, 0
        self._credit = 0.0 if self._total < asked else self._credit
        self._stepped_at = self._stepped_at or _time()
        self.after, self.is_first_pass = None, False
