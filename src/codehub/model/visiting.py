"""Where a visitor goes, a workspace's IDE or a port inside it, and what must happen first. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from codehub.model.recovery import is_pending
from codehub.model.wishes import is_going
from codehub.model.workspace import Desired, Operation, Phase, VolumeState, Workspace, WorkspaceId

PORTS = range(1024, 65536)  # below, only an administrator of the workspace could listen, and there is none


@dataclass(frozen=True, slots=True)
class Destination:
    """A workspace; without a port its IDE. Each has an origin of its own where there are own origins."""

    workspace: WorkspaceId
    port: int | None = None


class Step(Enum):
    """What a visit comes to next (SPEC section 12)."""

    IN = auto()  # it runs
    WAIT = auto()  # something is going on that ends by itself
    WAKE = auto()  # it stands by, or is being archived and can be left so: a visit starts it
    RESTORE = auto()  # it is archived: a person must ask
    START = auto()  # it was never started: a person must ask
    ERROR = auto()
    GONE = auto()  # deleted, or about to be


def step_of(workspace: Workspace) -> Step:
    """The first match wins."""
    status, wish = workspace.status, workspace.wish
    if is_going(workspace) or status.phase in (Phase.DELETING, Phase.DELETED):
        return Step.GONE
    if status.phase is Phase.ERROR:
        return Step.WAIT if is_pending(workspace) else Step.ERROR
    if status.phase is Phase.RUNNING and status.operation is Operation.NONE and status.endpoint is not None:
        return Step.IN
    left = status.operation is Operation.ARCHIVING and status.home_ctx.volume is VolumeState.LIVE  # a visit abandons it
    if (status.operation is not Operation.NONE and not left) or status.phase is Phase.RUNNING:
        return Step.WAIT
    if status.phase is Phase.STANDBY:
        return Step.WAIT if wish.desired_state is Desired.RUNNING else Step.WAKE
    if wish.desired_state in (Desired.RUNNING, Desired.STANDBY):  # on its way up
        return Step.WAIT
    return Step.RESTORE if status.phase is Phase.ARCHIVED else Step.START


def may_start_safely(workspace: Workspace) -> bool:
    """Whether its settings may be what keeps it from starting: it is in ERROR, and its home is there."""
    status = workspace.status
    return status.phase is Phase.ERROR and status.conditions.volume_ready.status
