"""Small values with sensible defaults, so that a test names only what it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from codehub.model.conditions import Condition, Conditions
from codehub.model.observation import InstanceSeen, Life, Seen, VolumeSeen
from codehub.model.workspace import (
    HomeContext,
    Incarnation,
    InstanceBackend,
    Operation,
    OpId,
    Phase,
    Status,
    StorageBackend,
    UserId,
    VolumeState,
    Wish,
    Workspace,
    WorkspaceId,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WORKSPACE = WorkspaceId(UUID(int=1))
OTHER = WorkspaceId(UUID(int=9))
OWNER = UserId(UUID(int=2))
OP = OpId(UUID(int=100))
NEXT_OP = OpId(UUID(int=101))
MADE = Incarnation("made")

ABSENT = InstanceSeen(None)
NO_VOLUME = VolumeSeen(False, confirmed=True)
LIVE_HOME = HomeContext(volume=VolumeState.LIVE, incarnation=MADE)
LIVE_VOLUME = VolumeSeen(True, MADE, whole=True)
NOTHING = Seen(instance=ABSENT, volume=NO_VOLUME, jobs=())


def op(number: int) -> OpId:
    return OpId(UUID(int=number))


def running(op_id: OpId | None = None) -> InstanceSeen:
    return InstanceSeen(Life.READY, op_id, "127.0.0.1:8080")


def condition(status: bool, reason: str = "", since: datetime = NOW) -> Condition:
    return Condition(status, reason or ("Yes" if status else "No"), "", since)


def conditions(
    *, volume: bool = False, archive: bool = False, container: bool = False, healthy: bool = True
) -> Conditions:
    return Conditions(condition(volume), condition(archive), condition(container), condition(healthy))


def status(**fields: Any) -> Status:
    fields.setdefault("phase_changed_at", NOW)
    return Status(**fields)


def workspace(*, source_archive: Any = None, now: Status | None = None, **wish: Any) -> Workspace:
    return Workspace(
        id=WORKSPACE,
        owner_user_id=OWNER,
        created_at=NOW,
        instance_backend=InstanceBackend.PROCESS,
        storage_backend=StorageBackend.DIRECTORY,
        source_archive=source_archive,
        wish=Wish(image_ref="ide", **wish),
        status=now or status(),
    )


def in_phase(phase: Phase, operation: Operation = Operation.NONE, **wish: Any) -> Workspace:
    return workspace(now=status(phase=phase, operation=operation), **wish)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def with_status(of: Workspace, **fields: Any) -> Workspace:
    return replace(of, status=replace(of.status, **fields))
