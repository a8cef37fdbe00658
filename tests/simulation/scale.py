"""How big a seed is, and how much happens in it."""

from dataclasses import dataclass
from random import Random

from codehub.drivers.memory import Misbehaviour

LONG_CALM = 8  # each so many seeds: nothing happens any more, not even later


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


DENSE = Scale(4, 0.07, 0.35, 2.5, 0.0)  # much happens in little time: where planted bugs are looked for


def scale_of(seed: int) -> Scale:
    """Most seeds are small and deep; each hundredth is a crowd."""
    rng = Random(f"{seed}/scale")
    if seed % 100 == 99:
        return Scale(rng.randint(1000, 5000), 0.5, 0.05, 10.0, 0.0)
    losses = 0.03 if seed % 3 == 2 else 0.0
    workspaces = rng.randint(3, 16)
    often = rng.uniform(2.0, 12.0) / workspaces
    return Scale(workspaces, rng.uniform(0.2, 0.6), often, rng.uniform(3.0, 30.0), losses, seed % LONG_CALM == 0)
