"""How big a seed is, and how much happens in it."""

from dataclasses import dataclass, replace
from enum import Enum, auto
from random import Random
from typing import Any

from codehub.drivers.memory import Misbehaviour

LONG_CALM = 8  # each so many seeds: nothing happens any more, not even later


class Disaster(Enum):
    """What goes wrong at large, and is nobody's fault who has a workspace (disasters.py)."""

    STORE_FULL = auto()
    SLOW_STORE = auto()
    UNREADABLE_FILE = auto()
    EVICTIONS = auto()
    CLOCKS_JUMP = auto()
    PURGE_STORM = auto()
    TRASH_EXPIRES = auto()
    BACKUP_RESTORED = auto()
    ARCHIVES_GONE = auto()
    SNAPSHOT_PUT_BACK = auto()
    COMMITS_LOST = auto()


ALWAYS = [each for each in Disaster if each.value < Disaster.ARCHIVES_GONE.value]  # what any seed may meet
TRAVELS = (Disaster.BACKUP_RESTORED, Disaster.SNAPSHOT_PUT_BACK, Disaster.COMMITS_LOST)


@dataclass(frozen=True)
class Scale:
    """How big a seed is."""

    workspaces: int
    hours: float
    people_every: float  # seconds between two things that somebody does
    weather_every: float
    losses: float
    rests: bool = False  # whether it is watched for long after the last fault
    verbs: tuple[str, ...] = ()  # what misbehaves; else whatever
    kinds: tuple[Misbehaviour, ...] = ()  # … and how
    disasters: tuple[Disaster, ...] = ()
    disaster_every: float = 120.0
    is_fair: bool = False  # nothing fails that could be a workspace's own fault: whatever ends in ERROR is a false one
    comes_home: bool = False  # whether at the end every owner tries to get into every workspace

    @property
    def collects_often(self) -> bool:
        """Whether trash expires and GC deletes while people are there."""
        return bool({Disaster.PURGE_STORM, Disaster.TRASH_EXPIRES} & set(self.disasters))


# Where planted bugs that show in disasters are looked for.
STRICKEN = Scale(6, 0.25, 1.0, 15.0, 0.0, rests=True, disaster_every=30.0, comes_home=True)
DENSE = Scale(4, 0.07, 0.35, 2.5, 0.0)  # much happens in little time: where planted bugs are looked for


def scale_of(seed: int) -> Scale:
    """Most seeds are small and deep; each hundredth is a crowd."""
    rng = Random(f"{seed}/scale")
    if seed % 100 == 99:
        return Scale(rng.randint(1000, 5000), 0.5, 0.05, 10.0, 0.0)
    losses = 0.03 if seed % 3 == 2 else 0.0
    workspaces = rng.randint(3, 16)
    often = rng.uniform(2.0, 12.0) / workspaces
    scale = Scale(workspaces, rng.uniform(0.2, 0.6), often, rng.uniform(3.0, 30.0), losses, seed % LONG_CALM == 0)
    return replace(scale, comes_home=True, **_disasters_of(seed))


def _disasters_of(seed: int) -> dict[str, Any]:
    """None of them, one, or a few, whichever; every third of those seeds is fair."""
    rng = Random(f"{seed}/disasters")
    every = rng.choice((30.0, 120.0, 300.0))
    chosen = rng.sample(list(Disaster), rng.choice((0, 1, 1, 2, 4)))
    return {"disasters": tuple(chosen), "disaster_every": every, "is_fair": bool(chosen) and rng.random() < 1 / 3}
