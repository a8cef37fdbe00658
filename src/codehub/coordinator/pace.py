"""How often to tick, and how fast to walk through the workspaces that need nothing.

Ticks are frequent while something happens and for a while after a wake-up, rare otherwise. The sweep walks through all
workspaces at a constant speed, so that a tick costs the same however many there are; a new leader's first pass is
quick, because nobody knows what happened before it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from codehub.model.workspace import Workspace, WorkspaceId

_FIRST_PASS = 1000  # rows per tick
_LONGEST_STEP_SECONDS = 60.0  # after a long pause the sweep goes on, it does not catch up


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds, and rows per second, from configuration."""

    idle_interval: float = 15.0
    active_interval: float = 1.0
    active_duration: float = 30.0
    sweep_rate: float = 15.0  # rows per second


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
    _credit: float = 0.0
    _stepped_at: float | None = None

    def size(self) -> int:
        """How many rows to look at in this tick."""
        if self.is_first_pass:
            return _FIRST_PASS
        now = _time()
        elapsed = min(now - (self._stepped_at or now), _LONGEST_STEP_SECONDS)
        self._stepped_at = now
        self._credit += self.pace.sweep_rate * elapsed
        return int(self._credit)

    def stepped(self, rows: Sequence[Workspace], asked: int) -> None:
        """These were read when `asked` were wanted; fewer means that the pass is over."""
        if asked == 0:
            return
        if not self.is_first_pass:
            self._credit -= asked
        if len(rows) == asked:
            self.after = rows[-1].id
        else:
            self.after, self.is_first_pass = None, False
