"""TTL rules: when an unused workspace stops, and when a stopped one is archived.

A TTL acts only where desired_state equals phase and no operation runs, so it never overrides a wish that is still on
its way; the keep-awake lease and any activity push it back. The same rules say when and why it will act next.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from codehub.model.workspace import Desired, Operation, Phase, Workspace

NEVER = 0
SHORTEST_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Transition:
    """What a TTL will ask for, when, and because of what."""

    to: Desired
    at: datetime
    because: str


def next_transition(workspace: Workspace) -> Transition | None:
    """The next thing a TTL will do if nothing else happens, or None."""
    wish, status = workspace.wish, workspace.status
    settled = status.operation is Operation.NONE and status.phase.value == wish.desired_state.value
    settled = settled and wish.deleted_at is None
    if not settled:
        return None
    if status.phase is Phase.RUNNING and wish.standby_ttl_seconds != NEVER:
        since, what = max(
            (status.phase_changed_at, "since it was started"),
            (wish.last_access_at or status.phase_changed_at, "since it was last used"),
            (wish.keep_awake_until or status.phase_changed_at, "after it was kept awake"),
        )
        pause = wish.standby_ttl_seconds
        return Transition(Desired.STANDBY, since + timedelta(seconds=pause), f"{_length(pause)} {what}")
    if status.phase is Phase.STANDBY and wish.archive_ttl_seconds != NEVER:
        pause = wish.archive_ttl_seconds
        at = status.phase_changed_at + timedelta(seconds=pause)
        return Transition(Desired.ARCHIVED, at, f"{_length(pause)} since it was stopped")
    return None


def _length(seconds: int) -> str:
    """For people: in the two largest units that say it, `1 d 12 h` or `90 s`."""
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    if seconds < 2 * 60:
        return f"{seconds} s"
    words = []
    for name, size in units:
        if seconds >= size:
            words.append(f"{seconds // size} {name}")
            seconds %= size
    return " ".join(words[:2])


def due(workspace: Workspace, now: datetime) -> Transition | None:
    """The transition whose time has come, or None."""
    coming = next_transition(workspace)
    return coming if coming is not None and now > coming.at else None


def is_valid_ttl(seconds: int) -> bool:
    """0 means never; anything shorter than a minute would fight with the user."""
    return seconds == NEVER or seconds >= SHORTEST_SECONDS
