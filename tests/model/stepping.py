"""One step of one operation: rows in the middle of it, what is seen of them, and what is done."""

from dataclasses import replace
from typing import Any

from codehub.model import actions as a
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen, JobSeen, JobState, Seen, VolumeSeen
from codehub.model.steps import Act, Change, Step, next_step
from codehub.model.workspace import (
    ArchiveKey,
    HomeContext,
    Incarnation,
    Operation,
    Status,
    VolumeRef,
    VolumeState,
    Workspace,
)
from tests.model import builders as b

Op, V, A, J = Operation, VolumeState, ArchiveSeen, JobState
KEY = archive_key(b.WORKSPACE, b.OP)
OLD_KEY = archive_key(b.WORKSPACE, b.op(5))
OLD, STRANGE = Incarnation("old"), Incarnation("stranger")
OWN = VolumeSeen(True, b.MADE, "u1", whole=True)
MADE_FOR_IT = VolumeSeen(True, b.MADE, "u1")  # by a restore that has not ended
LEFT_OVER = VolumeSeen(True, OLD, "u0")
STRANGER = VolumeSeen(True, STRANGE, "u9")
OWN_REF, OLD_REF = VolumeRef(b.MADE, "u1"), VolumeRef(OLD, "u0")
RUNNING = b.running(b.OP)
BUSY = [operation for operation in Op if operation is not Op.NONE]
WITH_JOBS = (Op.ARCHIVING, Op.RESTORING)  # an op_id is one operation's, so no other has a job of its own

HOMES = {
    Op.PROVISIONING: HomeContext(V.NONE, b.MADE, retired=(OLD,)),
    Op.RESTORING: HomeContext(V.RESTORING, b.MADE, retired=(OLD,)),
    Op.STARTING: HomeContext(V.LIVE, b.MADE, "u1", instance_op=b.OP),
    Op.STOPPING: HomeContext(V.LIVE, b.MADE, "u1", instance_op=b.op(5)),
    Op.ARCHIVING: HomeContext(V.LIVE, b.MADE, "u1"),
    Op.CREATE_EMPTY_ARCHIVE: HomeContext(),
    Op.DELETING: HomeContext(V.CONDEMNED, b.MADE, "u1", retired=(OLD,)),
}
COMMITTED = HomeContext(V.CONDEMNED, b.MADE, "u1", retired=(OLD,))


def during(operation: Operation, *, source: ArchiveKey | None = None, **status: Any) -> Workspace:
    status = {"op_id": b.OP, "op_started_at": b.NOW, "home_ctx": HOMES[operation], "archive_key": OLD_KEY, **status}
    return b.workspace(now=b.status(operation=operation, **status), source_archive=source)


def seeing(**seen: Any) -> Seen:
    return replace(b.NOTHING, **seen)


def job(state: JobState, *, op_id: Any = b.OP, uid: str = "u1", **fields: Any) -> tuple[JobSeen, ...]:
    return (JobSeen(op_id, state, uid, **fields),)


def step(row: Workspace, seen: Seen) -> Step:
    return next_step(row, seen, b.later(5), b.NEXT_OP)


def act(row: Workspace, seen: Seen) -> a.Action | None:
    """What is asked of a driver, or None."""
    found = step(row, seen)
    return found.action if isinstance(found, Act) else None


def change(row: Workspace, seen: Seen) -> Status:
    found = step(row, seen)
    assert isinstance(found, Change), found
    return found.status
