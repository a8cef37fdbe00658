"""Rows of every kind, drawn from a seed, and how one is put into PostgreSQL."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from codehub.db.pool import Connection
from codehub.db.rows import home_context_json, recover_request_json
from codehub.model import conditions as c
from codehub.model.conditions import Condition, Conditions
from codehub.model.names import archive_key
from codehub.model.workspace import (
    Desired,
    ErrorReason,
    HomeContext,
    Incarnation,
    InstanceBackend,
    Operation,
    OpId,
    Phase,
    RecoverRequest,
    Status,
    StorageBackend,
    VolumeState,
    Wish,
    Workspace,
    WorkspaceId,
)
from tests.db.support import OWNER, add_workspace

_VOLUME = (c.VOLUME_NOT_FOUND, c.VOLUME_PROVISIONED, c.NOT_OBSERVED)
_CONTAINER = (c.CONTAINER_NOT_FOUND, c.CONTAINER_RUNNING, c.NOT_OBSERVED)


def uuid(rng: Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)


def some(rng: Random, *values: Any) -> Any:
    return rng.choice(values)


def time_near(rng: Random, now: datetime) -> datetime:
    """Before or after now, never so near that a moment more or less would matter."""
    return now + timedelta(minutes=some(rng, -500, -60, -30, -9, -3, 2, 30)) + timedelta(seconds=rng.randint(5, 30))


def status(rng: Random, identity: WorkspaceId, now: datetime) -> Status:
    phase = rng.choice(list(Phase))
    operation = Operation.NONE if phase is Phase.ERROR or rng.random() < 0.6 else rng.choice(list(Operation))
    op_id = OpId(uuid(rng)) if rng.random() < 0.8 else None
    volume = rng.choice(_VOLUME)
    container = rng.choice(_CONTAINER)
    seen = Conditions(
        volume_ready=Condition(volume == c.VOLUME_PROVISIONED, volume, "", now),
        container_ready=Condition(container == c.CONTAINER_RUNNING, container, "", now),
    )
    return Status(
        conditions=seen if rng.random() < 0.9 else Conditions(),
        phase=phase,
        phase_changed_at=time_near(rng, now),
        observed_at=some(rng, None, now),
        operation=operation,
        op_started_at=None if operation is Operation.NONE else now,
        op_id=op_id,
        archive_key=archive_key(identity, op_id) if op_id is not None and rng.random() < 0.5 else None,
        home_ctx=HomeContext(
            volume=rng.choice(list(VolumeState)),
            incarnation=some(rng, None, Incarnation("made"), Incarnation("")),
            uid=some(rng, None, "uid-1"),
            retired=some(rng, (), (Incarnation("old"),)),
            instance_op=op_id,
            blank=rng.random() < 0.5,
        ),
        endpoint="10.0.0.1:8080" if phase is Phase.RUNNING else None,
        error_reason=rng.choice([None, *ErrorReason]),
        error_count=rng.randint(0, 3),
        retry_at=some(rng, None, time_near(rng, now)),
        recover_handled_id=None,
    )


def row(rng: Random, now: datetime) -> Workspace:
    identity = WorkspaceId(uuid(rng))
    made = status(rng, identity, now)
    asked = uuid(rng)
    request = RecoverRequest(asked, answers=some(rng, None, "Timeout")) if rng.random() < 0.4 else None
    made = replace(made, recover_handled_id=some(rng, None, asked, uuid(rng)))
    wish = Wish(
        image_ref="ide",
        desired_state=rng.choice(list(Desired)),
        deleted_at=some(rng, None, None, time_near(rng, now)),
        recover_request=request,
        keep_awake_until=some(rng, None, time_near(rng, now)),
        standby_ttl_seconds=some(rng, 0, 60, 600),
        archive_ttl_seconds=some(rng, 0, 60, 1800),
        last_access_at=some(rng, None, time_near(rng, now)),
    )
    if rng.random() < 0.5 and made.phase.value in list(Desired):
        wish = replace(wish, desired_state=Desired(made.phase.value))
    source = archive_key(WorkspaceId(UUID(int=7)), OpId(UUID(int=rng.randint(1, 3)))) if rng.random() < 0.3 else None
    return Workspace(
        id=identity,
        owner_user_id=OWNER,
        created_at=now,
        instance_backend=InstanceBackend.PROCESS,
        storage_backend=StorageBackend.DIRECTORY,
        source_archive=source,
        wish=wish,
        status=made,
    )


async def put(owner: Connection, workspace: Workspace) -> None:
    """Exactly this row."""
    wish, made = workspace.wish, workspace.status
    request = wish.recover_request
    await add_workspace(
        owner,
        id=workspace.id,
        created_at=workspace.created_at,
        source_archive=workspace.source_archive,
        desired_state=wish.desired_state.value,
        deleted_at=wish.deleted_at,
        recover_request=recover_request_json(request) if request is not None else None,
        keep_awake_until=wish.keep_awake_until,
        standby_ttl_seconds=wish.standby_ttl_seconds,
        archive_ttl_seconds=wish.archive_ttl_seconds,
        last_access_at=wish.last_access_at,
        conditions=c.to_json(made.conditions),
        phase=made.phase.value,
        phase_changed_at=made.phase_changed_at,
        observed_at=made.observed_at,
        operation=made.operation.value,
        op_started_at=made.op_started_at,
        op_id=made.op_id,
        archive_key=made.archive_key,
        home_ctx=home_context_json(made.home_ctx),
        endpoint=made.endpoint,
        error_reason=made.error_reason.value if made.error_reason is not None else None,
        error_count=made.error_count,
        retry_at=made.retry_at,
        recover_handled_id=made.recover_handled_id,
    )
