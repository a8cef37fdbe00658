"""How the tests of a tick make a row that is in the middle of something, and tick it."""

from dataclasses import replace
from typing import Any

from codehub.model.failure import Rules
from codehub.model.health import judge
from codehub.model.invariants import violations
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen, InstanceSeen, JobSeen, JobState, Life, Seen
from codehub.model.observe import observe
from codehub.model.tick import Decision, decide
from codehub.model.workspace import (
    Desired,
    ErrorReason,
    HomeContext,
    Operation,
    OpId,
    Phase,
    VolumeState,
    Workspace,
)
from tests.model import builders as b

Op, V, P, A, E = Operation, VolumeState, Phase, ArchiveSeen, ErrorReason
RULES = Rules()
KEY = archive_key(b.WORKSPACE, b.op(5))
RUNNING_HOME = replace(b.LIVE_HOME, instance_op=b.OP)
BUSY = [operation for operation in Op if operation is not Op.NONE]

# Each operation with a home and a look under which it is neither complete nor broken, and its row's phase.
UNDER_WAY: dict[Operation, tuple[Phase, HomeContext, Seen]] = {
    Op.PROVISIONING: (P.PENDING, HomeContext(incarnation=b.MADE), b.NOTHING),
    Op.RESTORING: (
        P.ARCHIVED,
        HomeContext(V.RESTORING, b.MADE),
        replace(b.NOTHING, volume=replace(b.LIVE_VOLUME, whole=False), archive=A.LISTED),
    ),
    Op.STARTING: (P.STANDBY, RUNNING_HOME, replace(b.NOTHING, volume=b.LIVE_VOLUME)),
    Op.STOPPING: (P.RUNNING, RUNNING_HOME, replace(b.NOTHING, volume=b.LIVE_VOLUME, instance=b.running(b.OP))),
    Op.ARCHIVING: (P.STANDBY, b.LIVE_HOME, replace(b.NOTHING, volume=b.LIVE_VOLUME, op_archive=A.MISSING)),
    Op.CREATE_EMPTY_ARCHIVE: (P.PENDING, HomeContext(), replace(b.NOTHING, op_archive=A.MISSING)),
    Op.DELETING: (P.DELETING, HomeContext(V.CONDEMNED, b.MADE), replace(b.NOTHING, volume=b.LIVE_VOLUME)),
}


def tick(row: Workspace, seen: Seen, seconds: float = 0, fresh: OpId = b.NEXT_OP) -> Decision:
    """One decision, checked against what no decision may do."""
    decision = decide(row, seen, now=b.later(seconds), fresh_op_id=fresh, rules=RULES)
    assert violations(row, seen, decision) == []
    return decision


def ticked(row: Workspace, seen: Seen, seconds: float = 0) -> Workspace:
    return replace(row, status=tick(row, seen, seconds).status)


def row_with(seen: Seen, *, phase: Phase, **fields: Any) -> Workspace:
    """A row whose conditions are those of an earlier, equal look."""
    wish_names = ("desired_state", "deleted_at", "purged_at", "recover_request")
    wish = {name: fields.pop(name) for name in wish_names if name in fields}
    row = b.workspace(now=b.status(phase=phase, **fields), **wish)
    conditions = observe(row, seen, b.NOW)
    return b.with_status(row, conditions=conditions.with_health(judge(conditions, None, b.NOW)))


def during(operation: Operation, **fields: Any) -> tuple[Workspace, Seen]:
    phase, home, seen = UNDER_WAY[operation]
    key = KEY if operation is Op.RESTORING else None
    fields = {"home_ctx": home, "op_id": b.OP, "op_started_at": b.NOW, "archive_key": key, **fields}
    if operation is Op.DELETING:
        fields.setdefault("deleted_at", b.NOW)
    if operation is Op.ARCHIVING:
        fields.setdefault("desired_state", Desired.ARCHIVED)
    return row_with(seen, phase=phase, operation=operation, **fields), seen


def job(state: JobState = JobState.RUNNING, **fields: Any) -> tuple[JobSeen, ...]:
    return (JobSeen(b.OP, state, **fields),)


# Rows at rest, each with the look under which it is.
HOME_THERE = replace(b.NOTHING, volume=b.LIVE_VOLUME)
ARCHIVE_THERE = replace(b.NOTHING, archive=A.LISTED)


def at_rest(phase: Phase, desired: Desired, seen: Seen, **fields: Any) -> tuple[Workspace, Seen]:
    return row_with(seen, phase=phase, desired_state=desired, **fields), seen


AT_REST = {
    "running": at_rest(
        P.RUNNING, Desired.RUNNING, replace(HOME_THERE, instance=b.running(b.OP)), home_ctx=RUNNING_HOME
    ),
    "standby": at_rest(P.STANDBY, Desired.STANDBY, HOME_THERE, home_ctx=b.LIVE_HOME),
    "archived": at_rest(P.ARCHIVED, Desired.ARCHIVED, ARCHIVE_THERE, archive_key=KEY),
    "store out": at_rest(P.ARCHIVED, Desired.ARCHIVED, replace(ARCHIVE_THERE, archive=A.UNREACHABLE), archive_key=KEY),
    "in error": at_rest(P.ERROR, Desired.RUNNING, HOME_THERE, home_ctx=b.LIVE_HOME, error_reason=E.TIMEOUT),
    "data lost": at_rest(P.ERROR, Desired.RUNNING, b.NOTHING, home_ctx=b.LIVE_HOME, error_reason=E.DATA_LOST),
    "in the trash": at_rest(P.DELETING, Desired.DELETED, ARCHIVE_THERE, archive_key=KEY, deleted_at=b.NOW),
    "deleted": at_rest(P.DELETED, Desired.DELETED, b.NOTHING, deleted_at=b.NOW),
    "all out": at_rest(P.RUNNING, Desired.RUNNING, Seen(), home_ctx=RUNNING_HOME),
}


ALIVE = replace(b.NOTHING, volume=b.LIVE_VOLUME, instance=b.running(b.OP))
DIED = replace(ALIVE, instance=InstanceSeen(Life.DEAD, b.OP))


def up(**fields: Any) -> Workspace:
    return row_with(ALIVE, phase=P.RUNNING, home_ctx=RUNNING_HOME, op_id=b.OP, **fields)
