"""The workspace object: what people and programs are shown of a row, as a dictionary and as JSON.

It depends on the row and on settings alone, so the same writing of a row is always the same bytes; its ETag is a hash
of them. `web/api/schemas.py` describes the same object to others. Its fields have the schema's names; `owner`,
`backend` and `error` say some of it again in another form. Never shown: endpoint, home_ctx.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from pydantic_core import to_json

from codehub.db.listing import ShownWorkspace
from codehub.model import conditions, recovery, removal, ttl, wishes
from codehub.model.names import volume_name
from codehub.model.workspace import Operation, OpId, Phase, RecoverFrom, Status, Workspace, WorkspaceId

_ETAG_BYTES = 16
_TRIED_AGAIN = "The last attempt failed. It is tried again by itself."  # of a row that an older version wrote


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has got; the leader leaves it in Redis."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """One workspace object as it goes out."""

    id: WorkspaceId
    stamp: str
    op_id: OpId | None  # of the operation that runs: its progress is to be added
    json: bytes

    @property
    def busy(self) -> bool:
        return self.op_id is not None

    @property
    def etag(self) -> str:
        return f'"{blake2b(self.json, digest_size=_ETAG_BYTES).hexdigest()}"'

    def with_progress(self, progress: Progress | None) -> bytes:
        if progress is None:
            return self.json
        told = to_json({"bytes": progress.bytes, "files": progress.files})
        return self.json.replace(_NO_PROGRESS, b'"progress":' + told, 1)


_NO_PROGRESS = b'"progress":null'


def encoded(shown: ShownWorkspace, retention: timedelta) -> Encoded:
    workspace = shown.workspace
    op_id = workspace.status.op_id if workspace.status.operation is not Operation.NONE else None
    return Encoded(workspace.id, shown.stamp, op_id, to_json(as_dict(shown, retention)))


def as_dict(shown: ShownWorkspace, retention: timedelta) -> dict[str, Any]:
    """The object. `progress` comes first: no text of a person's can stand before it."""
    workspace = shown.workspace
    wish, status = workspace.wish, workspace.status
    return {
        "id": str(workspace.id),
        "progress": None,
        "owner_user_id": str(workspace.owner_user_id),
        "owner": {"id": str(workspace.owner_user_id), "username": shown.owner_username},
        "name": shown.name,
        "description": shown.description,
        "memo": shown.memo,
        "tags": list(shown.tags),
        "is_favorite": shown.is_favorite,
        "image_ref": wish.image_ref,
        "instance_backend": workspace.instance_backend.value,
        "storage_backend": workspace.storage_backend.value,
        "backend": workspace.instance_backend.value,
        "home_store_key": volume_name(workspace.id),
        "created_at": _iso(workspace.created_at),
        "updated_at": _iso(shown.updated_at),
        "desired_state": wish.desired_state.value,
        "safe_mode": wish.safe_mode,
        "phase": status.phase.value,
        "phase_changed_at": _iso(status.phase_changed_at),
        "operation": status.operation.value,
        "op_started_at": _iso(status.op_started_at) if status.operation is not Operation.NONE else None,
        "op_id": str(status.op_id) if status.op_id is not None else None,
        "observed_at": _iso(status.observed_at),
        "error_reason": status.error_reason.value if status.error_reason is not None else None,
        "error_count": status.error_count,
        "error": _error(status),
        "conditions": _conditions(status),
        "standby_ttl_seconds": wish.standby_ttl_seconds,
        "archive_ttl_seconds": wish.archive_ttl_seconds,
        "last_access_at": _iso(wish.last_access_at),
        "keep_awake_until": _iso(wish.keep_awake_until),
        "next_transition": _next_transition(workspace),
        "deleted_at": _iso(wish.deleted_at),
        "undelete_until": _iso(wishes.undelete_until(workspace, retention)),
        "removal": _removal(shown, retention),
        "archive_key": status.archive_key,
        "archived": _is_archived(status),
        "url": f"/w/{workspace.id}/",
    }


def _removal(shown: ShownWorkspace, retention: timedelta) -> dict[str, Any] | None:
    found = removal.removal_of(shown.workspace, retention, is_remembered=shown.is_remembered)
    return None if found is None else {"reason": found.reason.value, "at": _iso(found.at)}


def _is_archived(status: Status) -> bool:
    """As far as the last look tells; one that could not be looked at is believed to be there."""
    reason = status.conditions.archive_ready.reason
    return status.archive_key is not None and reason not in conditions.TERMINAL_ARCHIVE_REASONS


def _error(status: Status) -> dict[str, Any] | None:
    """What is wrong: in ERROR, or on the way to the next attempt."""
    if status.error_reason is None and status.phase is not Phase.ERROR:
        return None
    healthy = status.conditions.healthy
    in_error = status.phase is Phase.ERROR
    sources = [each.value for each in RecoverFrom if recovery.is_refused(status, each, forced=False) is None]
    return {
        "reason": status.error_reason.value if status.error_reason is not None else healthy.reason,
        "count": status.error_count,
        "retry_at": _iso(status.retry_at),
        "message": healthy.message or _TRIED_AGAIN,
        "can_recover_from": sources if in_error else [],
    }


def _conditions(status: Status) -> dict[str, Any]:
    """The four that every workspace has, and any that are added: only what has the shape of a condition."""
    seen = status.conditions
    named = {
        conditions.VOLUME_READY: seen.volume_ready,
        conditions.ARCHIVE_READY: seen.archive_ready,
        conditions.CONTAINER_READY: seen.container_ready,
        conditions.HEALTHY: seen.healthy,
    }
    shown = {
        key: {
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "last_transition_time": _iso(each.last_transition_time),
        }
        for key, each in named.items()
    }
    return shown | {key: each for key, each in seen.others.items() if _is_condition(each)}


def _is_condition(stored: object) -> bool:
    return (
        isinstance(stored, Mapping) and isinstance(stored.get("status"), bool) and isinstance(stored.get("reason"), str)
    )


def _next_transition(workspace: Workspace) -> dict[str, Any] | None:
    coming = ttl.next_transition(workspace)
    if coming is None:
        return None
    return {"to": coming.to.value, "at": _iso(coming.at), "because": coming.because}


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
