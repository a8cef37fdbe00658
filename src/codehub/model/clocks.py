"""Whether another machine's clock goes on as time does. Pure: both readings are given."""

from dataclasses import dataclass

JUMP_SECONDS = 120.0  # of the database's: longer than a statement may take; less hardly matters
_DRIFT = 0.001  # a clock that is being corrected gently runs this much faster or slower at most


@dataclass
class ClockWatch:
    """Compares a wall clock with a monotonic one: what the two disagree about since the last note is a jump."""

    tolerance: float  # seconds; the time that an answer takes is among them
    _noted: tuple[float, float] | None = None

    def jump(self, theirs: float, ours: float) -> float | None:
        """Seconds by which it jumped, 0 for none worth speaking of; None when nothing was noted yet."""
        if self._noted is None:
            return None
        passed = ours - self._noted[1]
        jump = theirs - self._noted[0] - passed
        return jump if abs(jump) > self.tolerance + passed * _DRIFT else 0.0

    def note(self, theirs: float, ours: float) -> None:
        self._noted = (theirs, ours)
