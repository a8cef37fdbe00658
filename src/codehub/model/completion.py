"""When an operation is complete, and what completing it means.

Only observation completes an operation: the action's success does not. No operation ends while a job of its
workspace exists.
"""

from dataclasses import replace
from datetime import datetime

from codehub.model import conditions as c
from codehub.model.failure import is_put_off
from codehub.model.observation import Seen
from codehub.model.observe import is_unknown
from codehub.model.plan import may_delete_unknown
from codehub.model.suspicion import is_absence_unsure
from codehub.model.workspace import UNLABELLED, HomeContext, Operation, OpId, Phase, Status, VolumeState, Workspace


def is_complete(workspace: Workspace, seen: Seen) -> bool:
    """Whether the operation's completion condition was observed; `workspace` carries this look's conditions."""
    if seen.jobs is None or seen.jobs:
        return False
    status = workspace.status
    conditions = status.conditions
    match status.operation:
        case Operation.NONE:
            return False
        case Operation.PROVISIONING:
            return _own_volume_exists(status, seen)
        case Operation.RESTORING:
            restored = status.archive_key is not None and status.home_ctx.restore_marker == status.archive_key
            same = seen.volume is not None and seen.volume.uid == status.home_ctx.uid
            return restored and same and _own_volume_exists(status, seen)
        case Operation.STARTING:
            return conditions.container_ready.status and conditions.volume_ready.status
        case Operation.STOPPING:
            return _no_instance(seen)
        case Operation.ARCHIVING:
            # Condemned means that this operation's archive (or, for a leftover, the earlier one) was committed.
            committed = status.home_ctx.volume is VolumeState.CONDEMNED and status.archive_key is not None
            return committed and _no_volume(seen) and conditions.archive_ready.status
        case Operation.CREATE_EMPTY_ARCHIVE:
            return status.archive_key is not None and conditions.archive_ready.status
        case Operation.DELETING:
            # Nobody looks after it any more. What was once seen for certain is still in the condition.
            unsure = is_absence_unsure(workspace, seen) and conditions.volume_ready.reason != c.VOLUME_NOT_FOUND
            gone = _no_volume(seen) and not unsure
            return _no_instance(seen) and (gone or is_unknown(status.home_ctx, seen.volume))


def completed(workspace: Workspace, seen: Seen) -> Status:
    """The status once the operation is complete (phase and health are derived afterwards)."""
    status = workspace.status
    home = status.home_ctx
    endpoint = None
    error_count = 0
    match status.operation:
        case Operation.PROVISIONING | Operation.RESTORING:
            # Many volumes are unlabelled: a later one may be a person's, so that incarnation is not kept as ours.
            retired = tuple(each for each in home.retired if each != UNLABELLED)
            uid = seen.volume.uid if seen.volume else None
            home = replace(home, volume=VolumeState.LIVE, uid=uid, retired=retired)
        case Operation.ARCHIVING | Operation.DELETING:
            home = replace(home, volume=VolumeState.NONE, uid=None, restore_marker=None)
        case Operation.STOPPING:
            home = replace(home, instance_op=None)
        case Operation.STARTING:
            endpoint = seen.instance.endpoint if seen.instance else None
            error_count = status.error_count  # reset only after it stayed alive: see tick.py, crash loops
        case _:
            pass
    return replace(
        status,
        operation=Operation.NONE,
        op_started_at=None,
        home_ctx=home,
        endpoint=endpoint,
        error_reason=None,
        error_count=error_count,
        retry_at=None,
    )


def started(workspace: Workspace, operation: Operation, seen: Seen, now: datetime, op_id: OpId) -> Status:
    """The status that the compare-and-set writes to start an operation; `op_id` was never used before."""
    status = workspace.status
    home = status.home_ctx
    endpoint = status.endpoint
    if operation is not Operation.STOPPING:
        home = replace(home, instance_op=None)  # whatever instance turns up from here on, nobody asked for it
    match operation:
        case Operation.PROVISIONING:
            home = home.draw(op_id, VolumeState.NONE)
        case Operation.RESTORING:
            home = home.draw(op_id, VolumeState.RESTORING)
        case Operation.STARTING:
            home = replace(home, instance_op=op_id)
        case Operation.STOPPING:
            endpoint = None  # no new visitor is sent to an instance that is going
        case Operation.ARCHIVING if status.phase is Phase.ARCHIVED:
            # A leftover: only the last step is left. What this row had not condemned already may be half removed.
            asked = home.removal_asked or home.volume is not VolumeState.CONDEMNED
            home = replace(home, volume=VolumeState.CONDEMNED, removal_asked=asked)
        case Operation.DELETING:
            home = _condemned(workspace, home, seen)
            endpoint = None
        case _:
            pass
    # Of a crash loop, and of an archive that fails again and again, the failures add up.
    adds_up = operation is Operation.STARTING or (operation is Operation.ARCHIVING and is_put_off(status))
    return replace(
        status,
        operation=operation,
        op_id=op_id,
        op_started_at=now,
        home_ctx=home,
        endpoint=endpoint,
        error_count=status.error_count if adds_up else 0,
        error_reason=None,
        retry_at=None,
    )


def _condemned(workspace: Workspace, home: HomeContext, seen: Seen) -> HomeContext:
    if seen.volume is not None and is_unknown(home, seen.volume) and may_delete_unknown(workspace):
        home = replace(home, incarnation=seen.volume.incarnation)
    return replace(home, volume=VolumeState.CONDEMNED, removal_asked=True)


def _own_volume_exists(status: Status, seen: Seen) -> bool:
    return seen.volume is not None and seen.volume.exists and seen.volume.incarnation == status.home_ctx.incarnation


def _no_volume(seen: Seen) -> bool:
    return seen.volume is not None and not seen.volume.exists


def _no_instance(seen: Seen) -> bool:
    return seen.instance is not None and not seen.instance.exists
