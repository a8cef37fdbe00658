"""Whose storage job may start: as many at once as the machines and the store bear, the others in a queue.

Restores go before archives, because a person waits for one. Owners take turns, and each one's oldest goes first. One
place, where there is more than one, is left to restores: archives may take hours. Where a home is on a machine that
has no place left, it waits, and those behind it go ahead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from codehub.model.workspace import UserId, WorkspaceId

ANYWHERE = ""  # a node that only the cluster chooses: the limit per node is its scheduler's to keep


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """How many storage jobs may run at once."""

    in_all: int
    per_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job that could start now."""

    workspace_id: WorkspaceId
    owner: UserId
    since: datetime
    is_restore: bool
    node: str = ANYWHERE  # where it would run


def in_order(waiting: Iterable[Waiting], last_turns: Mapping[UserId, int]) -> Sequence[Waiting]:
    """The queue. `last_turns` says at which turn each owner was served last; whose is longest ago is first."""
    waiting = sorted(waiting, key=lambda one: (one.since, one.workspace_id))
    return [
        *_by_turns([w for w in waiting if w.is_restore], last_turns),
        *_by_turns([w for w in waiting if not w.is_restore], last_turns),
    ]


def _by_turns(waiting: Sequence[Waiting], last_turns: Mapping[UserId, int]) -> Sequence[Waiting]:
    """`waiting` has the oldest first. Round by round: the first of each owner, then the second of each."""
    ranked: list[tuple[int, int, int, Waiting]] = []
    had: dict[UserId, int] = {}
    for age, one in enumerate(waiting):
        turn = had.get(one.owner, 0)
        had[one.owner] = turn + 1
        ranked.append((turn, last_turns.get(one.owner, -1), age, one))
    return [one for *_, one in sorted(ranked, key=lambda rank: rank[:3])]


def admitted(queue: Sequence[Waiting], running: Mapping[str, int], limits: JobLimits) -> Sequence[Waiting]:
    """Who may start now, while so many run on each node (ANYWHERE included)."""
    in_all, on = sum(running.values()), dict(running)
    chosen = []
    for one in queue:
        here = on.get(one.node, 0)
        per_node = limits.in_all if one.node == ANYWHERE else limits.per_node
        if in_all < _places(limits.in_all, one) and here < _places(per_node, one):
            chosen.append(one)
            in_all, on[one.node] = in_all + 1, here + 1
    return chosen


def _places(limit: int, one: Waiting) -> int:
    return limit if one.is_restore else max(1, limit - 1)


def jobs_of_machine(cores: int, memory_bytes: int) -> int:
    """How many a machine bears that also runs workspaces: a core and a GiB for each, two at the least."""
    return max(2, min(cores, memory_bytes >> 30))
