"""M1 rows by name, and what each must have become after the migration to M2."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from codehub.model.workspace import OpId

USER = UUID(int=1)
OP = OpId(UUID(int=77))
OBSERVED_AT = datetime(2025, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)
DELETED_AT = datetime(2025, 12, 30, 12, 0, tzinfo=UTC)
OLD_KEY = "w/00000000-0000-0000-0000-000000000001/home.tar.zst"
OUR_KEY = f"w/{OP}/home.tar.zst"


@dataclass(frozen=True, kw_only=True)
class M1:
    """A row as M1 wrote it."""

    observed: str = "PENDING"
    health: str = "OK"
    operation: str = "NONE"
    op_id: UUID | None = OP
    archive_key: str | None = None
    desired: str = "RUNNING"
    deleted: bool = False
    error_reason: str | None = None
    error_count: int = 0


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What it must be afterwards; reasons in the order volume, container, archive, policy."""

    phase: str
    operation: str = "NONE"
    volume: str = "none"
    reasons: tuple[str, str, str, str]
    true: str = ""  # which of v, c, a, p are true
    error_reason: str | None = None


FOUND, LOST, HALF = "VolumeProvisioned", "VolumeNotFound", "RestoreIncomplete"
RUNS, STOPPED, ABSENT = "ContainerRunning", "ContainerNotRunning", "ContainerNotFound"
KEPT, NONE = "ArchiveUploaded", "NoArchive"
FINE = "AllConditionsMet"

CASES: dict[str, tuple[M1, Expected]] = {
    "new": (M1(), Expected(phase="PENDING", reasons=(LOST, ABSENT, NONE, FINE), true="p")),
    "stopped": (
        M1(observed="STANDBY"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "running": (
        M1(observed="RUNNING", archive_key=OLD_KEY),
        Expected(phase="RUNNING", volume="live", reasons=(FOUND, RUNS, KEPT, FINE), true="vcap"),
    ),
    "archived": (
        M1(archive_key=OLD_KEY),
        Expected(phase="ARCHIVED", reasons=(LOST, ABSENT, KEPT, FINE), true="ap"),
    ),
    "being provisioned": (
        M1(operation="PROVISIONING"),
        Expected(phase="PENDING", operation="PROVISIONING", reasons=(LOST, ABSENT, NONE, FINE), true="p"),
    ),
    "being provisioned, and M1 already saw the volume": (
        M1(operation="PROVISIONING", observed="STANDBY"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "being started": (
        M1(operation="STARTING", observed="STANDBY"),
        Expected(phase="STANDBY", operation="STARTING", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "started, not yet noted": (
        M1(operation="STARTING", observed="RUNNING"),
        Expected(phase="RUNNING", volume="live", reasons=(FOUND, RUNS, NONE, FINE), true="vcp"),
    ),
    "being stopped": (
        M1(operation="STOPPING", observed="RUNNING"),
        Expected(phase="RUNNING", operation="STOPPING", volume="live", reasons=(FOUND, RUNS, NONE, FINE), true="vcp"),
    ),
    "being archived": (
        M1(operation="ARCHIVING", observed="STANDBY", archive_key=OLD_KEY),
        Expected(
            phase="STANDBY", operation="ARCHIVING", volume="live", reasons=(FOUND, STOPPED, KEPT, FINE), true="vap"
        ),
    ),
    "archived by this operation, volume gone": (
        M1(operation="ARCHIVING", archive_key=OUR_KEY),
        Expected(phase="ARCHIVED", operation="ARCHIVING", reasons=(LOST, ABSENT, KEPT, FINE), true="ap"),
    ),
    "volume gone before its archive was committed": (
        M1(operation="ARCHIVING"),
        Expected(phase="ERROR", reasons=(LOST, ABSENT, NONE, "DataLost"), error_reason="DataLost"),
    ),
    "volume gone, only an older archive": (
        M1(operation="ARCHIVING", archive_key=OLD_KEY),
        Expected(phase="ERROR", reasons=(LOST, ABSENT, KEPT, "DataLost"), true="a", error_reason="DataLost"),
    ),
    "an operation without an id cannot go on": (
        M1(operation="STARTING", observed="STANDBY", op_id=None),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "being restored": (
        M1(operation="RESTORING", archive_key=OLD_KEY),
        Expected(
            phase="ARCHIVED", operation="RESTORING", volume="restoring", reasons=(HALF, ABSENT, KEPT, FINE), true="ap"
        ),
    ),
    "being restored, the half volume in sight": (
        M1(operation="RESTORING", archive_key=OLD_KEY, observed="STANDBY"),
        Expected(
            phase="ARCHIVED", operation="RESTORING", volume="restoring", reasons=(HALF, STOPPED, KEPT, FINE), true="ap"
        ),
    ),
    "running in the middle of a restore": (
        M1(operation="RESTORING", archive_key=OLD_KEY, observed="RUNNING"),
        Expected(
            phase="ERROR",
            volume="restoring",
            reasons=(HALF, RUNS, KEPT, "ContainerWithoutVolume"),
            true="ca",
            error_reason="ContainerWithoutVolume",
        ),
    ),
    "restored from nothing": (
        M1(operation="RESTORING", observed="STANDBY"),
        Expected(
            phase="ERROR",
            reasons=("VolumeUnknown", STOPPED, NONE, "VolumeUnknown"),
            error_reason="VolumeUnknown",
        ),
    ),
    "given up without a reason": (
        M1(health="ERROR", observed="STANDBY"),
        Expected(
            phase="ERROR",
            volume="live",
            reasons=(FOUND, STOPPED, NONE, "RetryExceeded"),
            true="v",
            error_reason="RetryExceeded",
        ),
    ),
    "given up in the middle of a restore": (
        M1(health="ERROR", operation="RESTORING", archive_key=OLD_KEY, error_reason="ActionFailed"),
        Expected(
            phase="ERROR",
            volume="restoring",
            reasons=(HALF, ABSENT, KEPT, "RetryExceeded"),
            true="a",
            error_reason="RetryExceeded",
        ),
    ),
    "a terminal error": (
        M1(health="ERROR", observed="RUNNING", error_reason="Timeout", operation="STOPPING"),
        Expected(
            phase="ERROR", volume="live", reasons=(FOUND, RUNS, NONE, "Timeout"), true="vc", error_reason="Timeout"
        ),
    ),
    "an attempt that failed and is retried": (
        M1(observed="STANDBY", operation="STARTING", error_reason="ActionFailed", error_count=1),
        Expected(
            phase="STANDBY",
            operation="STARTING",
            volume="live",
            reasons=(FOUND, STOPPED, NONE, FINE),
            true="vp",
            error_reason="ActionFailed",
        ),
    ),
    "an old error of a healthy workspace": (
        M1(observed="STANDBY", error_reason="Timeout"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "deleted with everything": (
        M1(observed="STANDBY", archive_key=OLD_KEY, deleted=True),
        Expected(phase="DELETING", volume="live", reasons=(FOUND, STOPPED, KEPT, FINE), true="vap"),
    ),
    "deleted, the archive is left": (
        M1(archive_key=OLD_KEY, deleted=True),
        Expected(phase="DELETING", reasons=(LOST, ABSENT, KEPT, FINE), true="ap"),
    ),
    "deleted, nothing is left": (
        M1(deleted=True, health="ERROR", operation="DELETING", error_reason="Timeout"),
        Expected(
            phase="DELETED",
            reasons=(LOST, ABSENT, NONE, "Timeout"),
            error_reason="Timeout",
        ),
    ),
    "being deleted": (
        M1(observed="STANDBY", deleted=True, operation="DELETING"),
        Expected(
            phase="DELETING",
            operation="DELETING",
            volume="condemned",
            reasons=("VolumeCondemned", STOPPED, NONE, FINE),
            true="p",
        ),
    ),
    "deleting what was not deleted": (
        M1(observed="STANDBY", operation="DELETING"),
        Expected(
            phase="ERROR",
            error_reason="VolumeUnknown",
            reasons=("VolumeUnknown", STOPPED, NONE, "VolumeUnknown"),
        ),
    ),
}
