"""What no decision may do, stated apart from the rules that decide.

Tests and the simulation check every decision against this list; it is written from the contracts, not from the code.
"""

from dataclasses import replace

from codehub.model import actions as a
from codehub.model.leaving import was_kept
from codehub.model.observation import ArchiveSeen, Seen
from codehub.model.observe import is_live
from codehub.model.phase import LEVEL, VALID_PAIRS, calculate_phase
from codehub.model.tick import Decision
from codehub.model.workspace import ErrorReason, Operation, Phase, Status, VolumeState, Workspace

# Where completing each operation may lead; ERROR, DELETING and DELETED stand beside the order.
_ADJACENT = {
    Operation.PROVISIONING: {(Phase.PENDING, Phase.STANDBY)},
    Operation.CREATE_EMPTY_ARCHIVE: {(Phase.PENDING, Phase.ARCHIVED)},
    Operation.RESTORING: {(Phase.ARCHIVED, Phase.STANDBY)},
    Operation.STARTING: {(Phase.STANDBY, Phase.RUNNING)},
    Operation.STOPPING: {(Phase.RUNNING, Phase.STANDBY), (Phase.STANDBY, Phase.RUNNING)},  # a start landed late
    Operation.ARCHIVING: {(Phase.STANDBY, Phase.ARCHIVED), (Phase.ARCHIVED, Phase.STANDBY)},  # it was taken back
}

_OF_FAILED_ATTEMPTS = frozenset({ErrorReason.TIMEOUT, ErrorReason.RETRY_EXCEEDED})


def violations(workspace: Workspace, seen: Seen, decision: Decision) -> list[str]:
    """Every contract that this decision breaks, in words; empty when it breaks none."""
    return [
        *_of_the_status(workspace, decision),
        *_of_the_end(workspace, seen, decision),
        *_of_the_action(workspace, seen, decision),
    ]


def _of_the_status(workspace: Workspace, decision: Decision) -> list[str]:
    before, after = workspace.status, decision.status
    broken = []
    if (after.phase, after.operation) not in VALID_PAIRS:
        broken.append(f"{after.phase} with {after.operation} is no valid pair")
    if after.phase is not calculate_phase(after.conditions, workspace.wish.deleted_at, after.archive_key) and not (
        workspace.wish.deleted_at is not None and after.phase is before.phase
    ):
        broken.append("the phase is not the one that its conditions give")
    if after.phase is Phase.ERROR and after.error_reason is None:
        broken.append("ERROR without an error_reason")
    if before.operation is not Operation.NONE and after.operation not in (before.operation, Operation.NONE):
        broken.append("an operation was preempted by another")
    if decision.starts_operation(workspace) and after.op_id == before.op_id:
        broken.append("an operation started under a used op_id")
    if after.endpoint is not None and after.phase is not Phase.RUNNING:
        broken.append("an endpoint without RUNNING")
    if after.archive_key != before.archive_key and after.archive_key is None and not _named_blank(workspace):
        broken.append("archive_key was dropped without a recovery that says so")
    pair = (before.phase, after.phase)
    moved = before.phase is not after.phase and set(pair) <= set(LEVEL)
    if before.operation in _ADJACENT and moved and pair not in _ADJACENT[before.operation]:
        broken.append(f"{before.operation} led from {before.phase} to {after.phase}")
    return broken


def _of_the_end(workspace: Workspace, seen: Seen, decision: Decision) -> list[str]:
    """An operation ends complete, in ERROR or by a deletion; only an ARCHIVING that gave nothing up may be left."""
    before, after = workspace.status, decision.status
    if before.operation is Operation.NONE or after.operation is not Operation.NONE:
        return []
    if seen.jobs is None or seen.volume is None:
        return []  # of what was not looked at nothing can be said
    broken = []
    if seen.jobs:
        broken.append("an operation ended before its job was seen to be gone")
    whole = before.operation is Operation.ARCHIVING and before.home_ctx.volume is VolumeState.LIVE
    whole = whole and is_live(before.home_ctx, seen.volume)
    if whole and after.phase is Phase.ERROR and after.error_reason in _OF_FAILED_ATTEMPTS:
        broken.append("a whole home was shut because it could not be archived")
    if after.phase is Phase.ERROR or workspace.wish.deleted_at is not None or _is_finished(before.operation, after):
        return broken
    if was_kept(workspace, seen):
        untouched = (
            replace(before.home_ctx, volume=VolumeState.LIVE, removal_asked=False),
            before.archive_key,
            before.op_id,
        )
        if (after.home_ctx, after.archive_key, after.op_id) != untouched:
            broken.append("a volume was taken back as another home than was condemned")
    elif not whole or (after.home_ctx, after.archive_key, after.op_id) != (
        before.home_ctx,
        before.archive_key,
        before.op_id,
    ):
        broken.append(f"{before.operation} was left although it had given something up, or could not be left")
    return broken


def _is_finished(operation: Operation, after: Status) -> bool:
    """Whether the operation got where it leads."""
    seen, home = after.conditions, after.home_ctx
    match operation:
        case Operation.PROVISIONING | Operation.RESTORING:
            return home.volume is VolumeState.LIVE
        case Operation.STARTING:
            return seen.container_ready.status
        case Operation.ARCHIVING:
            return home.volume is VolumeState.NONE and after.archive_key is not None
        case Operation.CREATE_EMPTY_ARCHIVE:
            return after.archive_key is not None
        case _:
            return home.instance_op is None


def _of_the_action(workspace: Workspace, seen: Seen, decision: Decision) -> list[str]:
    status, action = workspace.status, decision.action
    broken = []
    if isinstance(action, a.DeleteVolume):
        broken += _of_a_deletion(workspace, seen, action)
    if action is not None and decision.starts_operation(workspace):
        broken.append("an action was taken before the operation was committed")
    if isinstance(action, a.StartInstance | a.StartArchiveJob) and status.home_ctx.volume is not VolumeState.LIVE:
        broken.append("a home that is not whole was started or archived")
    if isinstance(action, a.StartArchiveJob | a.StartRestoreJob) and (seen.instance is None or seen.instance.exists):
        broken.append("a job was started beside an instance")
    if isinstance(action, a.StartInstance | a.StartArchiveJob | a.StartRestoreJob | a.CreateVolume) and seen.jobs != ():
        broken.append("something was started beside a job")
    return broken


def _of_a_deletion(workspace: Workspace, seen: Seen, action: a.DeleteVolume) -> list[str]:
    home = workspace.status.home_ctx
    broken = []
    if seen.instance is None or seen.instance.exists:
        broken.append("a volume was deleted before its instance was gone")
    if home.volume is VolumeState.LIVE and action.volume.incarnation == home.incarnation:
        broken.append("a live home was deleted")
    if not home.knows(action.volume.incarnation):
        broken.append("a volume that this row did not make was deleted")
    if workspace.wish.deleted_at is None and workspace.status.operation is not Operation.PROVISIONING:
        if seen.archive is not ArchiveSeen.VERIFIED:
            broken.append("a volume was deleted without a verified archive")
        if workspace.status.archive_key is None:
            broken.append("a volume was deleted before archive_key was committed")
    return broken


def _named_blank(workspace: Workspace) -> bool:
    request = workspace.wish.recover_request
    return request is not None and request.source == "blank"
