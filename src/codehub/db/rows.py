"""Rows of `workspaces` to values of the model, and back.

Only the columns that the rules read are mapped; name, description and memo are the dashboard's.
"""

from typing import Any
from uuid import UUID

from psycopg.sql import SQL

from codehub.model import conditions
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    HomeContext,
    Incarnation,
    InstanceBackend,
    Operation,
    OpId,
    Phase,
    RecoverFrom,
    RecoverRequest,
    Status,
    StorageBackend,
    UserId,
    VolumeState,
    Wish,
    Workspace,
    WorkspaceId,
)

# In the order in which `workspace_of` reads them.
COLUMNS = SQL("""
    id, owner_user_id, created_at, instance_backend, storage_backend, source_archive,
    image_ref, desired_state, deleted_at, purged_at, recover_request, keep_awake_until, standby_ttl_seconds,
    archive_ttl_seconds, last_access_at, safe_mode, asked_by,
    conditions, phase, phase_changed_at, observed_at, operation, op_started_at, op_id, archive_key, home_ctx, endpoint,
    error_reason, error_count, retry_at, recover_handled_id
""")
_CONSTANT, _WISH = 6, 17  # where the parts end


def storable(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The same value without characters that PostgreSQL cannot hold: a driver's message may contain anything.

    One such character would otherwise make the write of a whole tick fail.
    """
    match value:
        case str():
            return value.replace("\0", "").encode(errors="replace").decode()
        case dict():
            return {storable(key): storable(each) for key, each in value.items()}
        case list() | tuple():
            return [storable(each) for each in value]
        case _:
            return value


def workspace_of(row: tuple[Any, ...]) -> Workspace:
    """One selected row of COLUMNS."""
    identity, owner, created_at, instance_backend, storage_backend, source_archive = row[:_CONSTANT]
    return Workspace(
        id=WorkspaceId(identity),
        owner_user_id=UserId(owner),
        created_at=created_at,
        instance_backend=InstanceBackend(instance_backend),
        storage_backend=StorageBackend(storage_backend),
        source_archive=source_archive,
        wish=_wish(row[_CONSTANT:_WISH]),
        status=_status(row[_WISH:]),
    )


def _wish(row: tuple[Any, ...]) -> Wish:
    (
        image_ref, desired, deleted_at, purged_at, recover, keep_awake_until, standby_ttl, archive_ttl, accessed,
        safe_mode, asked_by,
    ) = row  # fmt: skip
    return Wish(
        image_ref=image_ref,
        desired_state=Desired(desired),
        deleted_at=deleted_at,
        purged_at=purged_at,
        recover_request=recover_request_of(recover) if recover else None,
        keep_awake_until=keep_awake_until,
        standby_ttl_seconds=standby_ttl,
        archive_ttl_seconds=archive_ttl,
        last_access_at=accessed,
        safe_mode=safe_mode,
        asked_by=asked_by,
    )


def _status(row: tuple[Any, ...]) -> Status:
    (
        conditions_json, phase, phase_changed_at, observed_at, operation, op_started_at, op_id, archive_key, home_ctx,
        endpoint, error_reason, error_count, retry_at, recover_handled_id,
    ) = row  # fmt: skip
    return Status(
        conditions=conditions.from_json(conditions_json),
        phase=Phase(phase),
        phase_changed_at=phase_changed_at,
        observed_at=observed_at,
        operation=Operation(operation),
        op_started_at=op_started_at,
        op_id=OpId(op_id) if op_id else None,
        archive_key=archive_key,
        home_ctx=home_context_of(home_ctx),
        endpoint=endpoint,
        error_reason=ErrorReason(error_reason) if error_reason else None,
        error_count=error_count,
        retry_at=retry_at,
        recover_handled_id=recover_handled_id,
    )


def home_context_of(stored: dict[str, Any]) -> HomeContext:
    """Read the column. An incarnation of "" is a volume without a label, None is no volume ever made."""
    incarnation, marker, instance_op = (stored.get(key) for key in ("incarnation", "restore_marker", "instance_op"))
    return HomeContext(
        volume=VolumeState(stored["volume"]),
        incarnation=None if incarnation is None else Incarnation(incarnation),
        uid=stored.get("uid"),
        restore_marker=None if marker is None else ArchiveKey(marker),
        retired=tuple(Incarnation(retired) for retired in stored.get("retired", ())),
        instance_op=None if instance_op is None else OpId(UUID(instance_op)),
        # An older version does not say: it may have asked for the removal of what it condemned.
        removal_asked=bool(stored.get("removal_asked", stored["volume"] == VolumeState.CONDEMNED)),
        blank=bool(stored.get("blank", False)),
    )


def home_context_json(home: HomeContext) -> dict[str, Any]:
    return {
        "volume": home.volume,
        "incarnation": home.incarnation,
        "uid": home.uid,
        "restore_marker": home.restore_marker,
        "retired": list(home.retired),
        "instance_op": None if home.instance_op is None else str(home.instance_op),
        "removal_asked": home.removal_asked,
        "blank": home.blank,
    }


def recover_request_of(stored: dict[str, Any]) -> RecoverRequest:
    return RecoverRequest(
        id=UUID(stored["id"]),
        source=RecoverFrom(stored.get("from", RecoverFrom.AS_IS)),
        answers=stored.get("answers"),
        forced=bool(stored.get("forced", False)),
    )


def recover_request_json(request: RecoverRequest) -> dict[str, Any]:
    return {"id": str(request.id), "from": request.source, "answers": request.answers, "forced": request.forced}
