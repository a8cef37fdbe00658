"""What came of a seed, and how to see it again."""

from dataclasses import dataclass
from enum import Enum

_STUCK = ("stuck:", "do not converge", "goes round in circles", "does not come to rest", "is left", "has left")
_FALSE_ERROR = ("a false ERROR", "and nothing was lost", "and the archive is whole")
_LOST = ("version", "home", "only copy", "GC deleted", "an archive was committed", "is shown although")


class Failing(Enum):
    """Which kind of promise a violation breaks."""

    LOSS = "losses"
    STUCK = "stuck"
    FALSE_ERROR = "false ERROR"
    OTHER = "other"


def failing(violation: str) -> Failing:
    kinds = ((Failing.FALSE_ERROR, _FALSE_ERROR), (Failing.STUCK, _STUCK), (Failing.LOSS, _LOST))
    return next((kind for kind, words in kinds if any(word in violation for word in words)), Failing.OTHER)


@dataclass
class Outcome:
    seed: int
    digest: str
    events: int
    faults: int
    virtual_hours: float
    seconds: float
    workspaces: int
    kinds: dict[str, int]
    most_asked: int = 0
    violation: str | None = None
    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.violation is None:
            return f"seed {self.seed}: {self.virtual_hours:.1f} h, {self.events} events, {self.faults} faults"
        lines = "\n".join(f"    {line}" for line in self.story)
        return f"seed {self.seed}: {self.violation}\n{lines}\n    replay: make test-simulation SEED={self.seed}"
