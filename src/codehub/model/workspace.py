"""The vocabulary: what a workspace is, split by who may write which part of it.

`Workspace` is one row. Its `wish` belongs to the service layer, its `status` to the WorkspaceController, the rest
never changes after creation. A pure rule takes the whole and returns a new `Status` (or, for TTLs, a new wish);
PostgreSQL enforces the same split with column privileges.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType
from uuid import UUID

from codehub.model.conditions import Conditions

WorkspaceId = NewType("WorkspaceId", UUID)
UserId = NewType("UserId", UUID)
OpId = NewType("OpId", UUID)
Incarnation = NewType("Incarnation", str)  # which making of a volume this is; drawn before the volume is made
ArchiveKey = NewType("ArchiveKey", str)  # `{workspace_id}/{op_id}/home.tar.zst`

UNLABELLED = Incarnation("")  # a volume made before incarnations existed, or by hand
MAX_RETIRED = 16  # a creation that hung longer ago than this many operations is left to a person


class Phase(StrEnum):
    """The one word derived from the conditions (phase.py)."""

    PENDING = "PENDING"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"
    ERROR = "ERROR"
    DELETING = "DELETING"
    DELETED = "DELETED"


class Desired(StrEnum):
    """What the user wants. PENDING cannot be asked for."""

    DELETED = "DELETED"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"


class Operation(StrEnum):
    """The transition in progress; at most one per workspace."""

    NONE = "NONE"
    PROVISIONING = "PROVISIONING"
    RESTORING = "RESTORING"
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    ARCHIVING = "ARCHIVING"
    CREATE_EMPTY_ARCHIVE = "CREATE_EMPTY_ARCHIVE"
    DELETING = "DELETING"


class ErrorReason(StrEnum):
    """Why an operation failed; failure.py says which of them end retrying."""

    TIMEOUT = "Timeout"
    DATA_LOST = "DataLost"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
    ARCHIVE_CORRUPTED = "ArchiveCorrupted"
    ARCHIVE_ACCESS_ERROR = "ArchiveAccessError"  # the archive is missing or expired and there is no live volume
    VOLUME_UNKNOWN = "VolumeUnknown"  # a volume that no operation of this row made: a person decides
    ACTION_FAILED = "ActionFailed"
    RETRY_EXCEEDED = "RetryExceeded"
    UNREACHABLE = "Unreachable"


class InstanceBackend(StrEnum):
    """What kind of infrastructure the instance runs on."""

    PROCESS = "process"
    DOCKER = "docker"
    K8S = "k8s"


class StorageBackend(StrEnum):
    """What kind of infrastructure the volume lives on."""

    DIRECTORY = "directory"
    DOCKER_VOLUME = "docker-volume"
    K8S_PVC = "k8s-pvc"


class VolumeState(StrEnum):
    """What the controller knows of the volume's content; only LIVE is a whole home."""

    NONE = "none"
    LIVE = "live"  # set when PROVISIONING or RESTORING completes
    RESTORING = "restoring"  # from the compare-and-set that starts RESTORING until the marker is stored
    CONDEMNED = "condemned"  # archived and committed, or being deleted: never to be used again


class RecoverFrom(StrEnum):
    """Where a recovery takes the home from; AS_IS only clears the error."""

    AS_IS = "as_is"
    VOLUME = "volume"
    ARCHIVE = "archive"
    BLANK = "blank"


@dataclass(frozen=True, slots=True)
class VolumeRef:
    """Exactly one making of a volume; whatever is asked of another one is refused by the driver."""

    incarnation: Incarnation
    uid: str | None  # None: any of this incarnation (it was made before uids existed)


@dataclass(frozen=True, slots=True)
class HomeContext:
    """The controller's memory of what it made (column home_ctx).

    `retired` holds the incarnations that this row drew and moved on from: such a volume may be removed when it turns
    up late, one that is in neither `incarnation` nor `retired` never. `uid` is the very volume that became live: a
    blank one that a late creation put in its place has the same incarnation but another uid.
    `instance_op` is the STARTING whose instance counts; any other instance gets no endpoint and is removed.
    `removal_asked`: of a condemned volume, that it may be half removed, or be removed by a call that lands late.
    """

    volume: VolumeState = VolumeState.NONE
    incarnation: Incarnation | None = None
    uid: str | None = None  # None while not live, or of a volume made before uids existed
    restore_marker: ArchiveKey | None = None
    retired: tuple[Incarnation, ...] = ()
    instance_op: OpId | None = None
    removal_asked: bool = False
    blank: bool = False  # a recovery chose a blank home: the source archive is not copied again

    def draw(self, op_id: OpId, volume: VolumeState) -> "HomeContext":
        """The memory once `op_id` is to make a new volume: what was made before is retired, its marker forgotten."""
        before = (self.incarnation,) if self.incarnation is not None else ()
        return HomeContext(
            volume=volume,
            incarnation=Incarnation(str(op_id)),
            retired=(*self.retired, *before)[-MAX_RETIRED:],
            blank=self.blank,
        )

    def knows(self, incarnation: Incarnation) -> bool:
        """Whether this row made that volume, now or earlier."""
        return incarnation == self.incarnation or incarnation in self.retired


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """A person's answer to one error; honoured once, by the controller."""

    id: UUID
    source: RecoverFrom = RecoverFrom.AS_IS
    answers: str | None = None  # the error_reason it was given for
    forced: bool = False  # archive and blank over a whole volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What people asked for; owned by the service layer."""

    image_ref: str
    desired_state: Desired = Desired.RUNNING
    deleted_at: datetime | None = None
    purged_at: datetime | None = None
    recover_request: RecoverRequest | None = None
    keep_awake_until: datetime | None = None
    standby_ttl_seconds: int = 600
    archive_ttl_seconds: int = 1800
    last_access_at: datetime | None = None
    safe_mode: bool = False  # it starts as a shell beside the home, and none of its settings are read
    asked_by: str = ""  # who or what asked for this desired_state, as in `user ada` or `ttl: …`


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What was observed and what is being done; owned by the WorkspaceController."""

    conditions: Conditions = field(default_factory=Conditions)
    phase: Phase = Phase.PENDING
    phase_changed_at: datetime
    observed_at: datetime | None = None
    operation: Operation = Operation.NONE
    op_started_at: datetime | None = None
    op_id: OpId | None = None
    archive_key: ArchiveKey | None = None
    home_ctx: HomeContext = HomeContext()
    endpoint: str | None = None
    error_reason: ErrorReason | None = None
    error_count: int = 0
    retry_at: datetime | None = None
    recover_handled_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One row, as the controller and the rules see it."""

    id: WorkspaceId
    owner_user_id: UserId
    created_at: datetime
    instance_backend: InstanceBackend
    storage_backend: StorageBackend
    source_archive: ArchiveKey | None = None
    wish: Wish
    status: Status
