"""What the menu in an IDE says of its workspace: how it is, until when, and why it is no longer running. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from codehub.db.listing import ShownWorkspace
from codehub.model import ttl
from codehub.model.visiting import Step, step_of
from codehub.model.workspace import Desired
from codehub.services.actors import Actor

NOTICE_SECONDS = 300  # before an idle stop
_STATES = {
    Step.IN: "running",
    Step.WAKE: "stopped",
    Step.RESTORE: "archived",
    Step.START: "stopped",
    Step.ERROR: "error",
    Step.GONE: "gone",
}


@dataclass(frozen=True, slots=True)
class MenuStatus:
    """`reason` is idle, you, owner, admin, or nothing that can be said in a word."""

    name: str
    state: str  # running, starting, stopping, stopped, archived, error or gone
    reason: str = ""
    message: str = ""  # of an error
    stops_at: datetime | None = None  # if nobody uses it
    awake_until: datetime | None = None
    notice_seconds: int = 0  # so long before it stops a notice is shown
    may_change: bool = False  # its owner looks

    def as_dict(self, now: datetime) -> Mapping[str, object]:
        """Times as seconds from now: no clock of the browser's is asked."""
        told = asdict(self)
        for name, at in (("stops_in", told.pop("stops_at")), ("awake_for", told.pop("awake_until"))):
            told[name] = None if at is None else round((at - now).total_seconds())
        return told


def status_of(shown: ShownWorkspace, viewer: Actor, now: datetime) -> MenuStatus:
    workspace = shown.workspace
    step, wish = step_of(workspace), workspace.wish
    if step is Step.WAIT:
        state = "starting" if wish.desired_state is Desired.RUNNING else "stopping"
    else:
        state = _STATES[step]
    if state == "error":
        return MenuStatus(shown.name, state, message=workspace.status.conditions.healthy.message)
    if state != "running":
        is_asked_for = wish.desired_state is not Desired.RUNNING
        return MenuStatus(shown.name, state, _reason(shown, viewer) if is_asked_for else "")
    coming = ttl.next_transition(workspace)
    stops_at = coming.at if coming is not None and coming.to is Desired.STANDBY else None
    until = wish.keep_awake_until
    awake_until = until if until is not None and until > now else None
    notice = min(NOTICE_SECONDS, wish.standby_ttl_seconds // 2)
    return MenuStatus(
        shown.name,
        state,
        stops_at=stops_at,
        awake_until=awake_until,
        notice_seconds=notice,
        may_change=workspace.owner_user_id == viewer.user_id,
    )


def _reason(shown: ShownWorkspace, viewer: Actor) -> str:
    """Who or what asked for it to stop, for whoever looks."""
    asked_by = shown.workspace.wish.asked_by
    if asked_by.startswith("ttl:"):
        return "idle"
    if asked_by == viewer.asked_by:
        return "you"
    if asked_by == f"user {shown.owner_username}":
        return "owner"
    return "admin" if asked_by.startswith("user ") else ""
