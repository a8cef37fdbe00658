"""The plan: which operation moves a workspace one step toward what its user wants.

First match wins, and only adjacent levels are ever connected. Every plan says why, in words for the person who asks
"why is it doing this?". DELETING is planned only once deleted_at is set; until then DELETED means "step down to
ARCHIVED".
"""

from dataclasses import dataclass

from codehub.model.failure import is_terminal
from codehub.model.observation import InstanceSeen, Life, Seen
from codehub.model.observe import is_leftover, is_unknown
from codehub.model.workspace import Desired, Operation, Phase, Workspace

_DOWN = frozenset({Desired.STANDBY, Desired.ARCHIVED, Desired.DELETED})
_UP = frozenset({Desired.STANDBY, Desired.RUNNING})
_AWAY = frozenset({Desired.ARCHIVED, Desired.DELETED})


@dataclass(frozen=True, slots=True)
class Plan:
    """The operation to start (NONE: nothing to do) and the reason for it."""

    operation: Operation
    why: str


def next_operation(workspace: Workspace, seen: Seen) -> Plan:
    """The operation for a workspace that has none; `workspace` carries this look's conditions and phase."""
    if workspace.wish.deleted_at is not None:
        return _plan_deleted(workspace, seen)
    phase, desired = workspace.status.phase, workspace.wish.desired_state
    if phase is Phase.ERROR:
        return Plan(Operation.NONE, "it waits for a person to recover it")
    if desired in _DOWN and (phase is Phase.RUNNING or _exists(seen.instance)):
        return Plan(Operation.STOPPING, f"it should be {desired}, and a container exists")
    match phase:
        case Phase.PENDING:
            return _plan_pending(workspace, desired)
        case Phase.ARCHIVED if desired in _UP:
            return Plan(Operation.RESTORING, f"it should be {desired}, and its home is in the archive")
        case Phase.ARCHIVED if is_leftover(workspace.status.home_ctx, seen.volume):
            return Plan(Operation.ARCHIVING, "its home is archived, and an old volume is left over")
        case Phase.STANDBY if desired is Desired.RUNNING:
            return Plan(Operation.STARTING, f"it should be RUNNING, and {_why_not(seen.instance)}")
        case Phase.STANDBY if desired in _AWAY:
            return Plan(Operation.ARCHIVING, f"it should be {desired}, and its home is on a volume")
    return Plan(Operation.NONE, f"it is {phase}, as it should be")


def _why_not(instance: InstanceSeen | None) -> str:
    """Why it does not run: what its driver knows of the end of the last container is told nowhere else for long."""
    if instance is not None and instance.life is Life.DEAD and instance.message:
        return f"its container has stopped: {instance.message}"
    return "its home is ready"


def _plan_pending(workspace: Workspace, desired: Desired) -> Plan:
    if workspace.status.archive_key is not None:
        return Plan(Operation.NONE, "its archive must be found first")
    if desired is Desired.DELETED:
        return Plan(Operation.NONE, "it has nothing to keep and is about to be deleted")
    if workspace.source_archive is not None and not workspace.status.home_ctx.blank:
        return Plan(Operation.CREATE_EMPTY_ARCHIVE, "it begins as a copy of another archive")
    if desired is Desired.ARCHIVED:
        return Plan(Operation.CREATE_EMPTY_ARCHIVE, "it should be ARCHIVED, and has no home yet")
    return Plan(Operation.PROVISIONING, f"it should be {desired}, and has no home yet")


def _plan_deleted(workspace: Workspace, seen: Seen) -> Plan:
    if seen.instance is None or seen.volume is None:
        return Plan(Operation.NONE, "what is left of it could not be looked at")
    if is_unknown(workspace.status.home_ctx, seen.volume) and not may_delete_unknown(workspace):
        if not seen.instance.exists:
            return Plan(Operation.NONE, "a volume that CodeHub did not make stays until the workspace is purged")
        return Plan(Operation.DELETING, "it was deleted, and a container exists")
    if seen.instance.exists or seen.volume.exists:
        return Plan(Operation.DELETING, "it was deleted, and a container or volume exists")
    return Plan(Operation.NONE, "it was deleted, and only its archive may be left, for GC")


def may_delete_unknown(workspace: Workspace) -> bool:
    """Whether whoever deleted the workspace was told of its state first: from ERROR, or by a purge."""
    from_error = is_terminal(workspace.status.error_reason) and workspace.status.operation is Operation.NONE
    return from_error or workspace.wish.purged_at is not None


def _exists(instance: InstanceSeen | None) -> bool:
    return instance is not None and instance.exists
