"""What administrators see plotted: workspaces by phase, what archives take, how long starts and restores last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from codehub.db import figures
from codehub.db.figures import Durations, Phases, Stored
from codehub.db.pool import Pool, connection
from codehub.model.workspace import Operation
from codehub.services.actors import Actor

_POINTS = 96


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything of one period; `step` is what one point stands for."""

    step: timedelta
    phases: Sequence[Phases]
    archives: Sequence[Stored]
    starts: Sequence[Durations]
    restores: Sequence[Durations]


async def over(pool: Pool, actor: Actor, lasting: timedelta) -> Figures:
    actor.require_admin()
    step = lasting / _POINTS
    async with connection(pool) as conn:
        return Figures(
            step,
            await figures.phases(conn, lasting, step),
            await figures.stored(conn, lasting),
            await figures.durations(conn, Operation.STARTING, lasting, step * 4),
            await figures.durations(conn, Operation.RESTORING, lasting, step * 4),
        )
