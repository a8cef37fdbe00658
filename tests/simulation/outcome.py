"""What came of a seed, and how to see it again."""

from dataclasses import dataclass


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
