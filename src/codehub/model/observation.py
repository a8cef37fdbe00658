"""What one look at the infrastructure found about one workspace.

None always means "could not look" or "did not look", never "is not there". A bulk listing may say that something is
there; that an archive is missing, corrupted or expired takes a direct look, and so does every absence that a rule
would call a loss (`VolumeSeen.confirmed`, see suspicion.py). The order of looking is jobs, archives, volumes,
instances: a job seen as ended has its archive in place, and an instance that appeared meanwhile is seen before a
commit.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from codehub.model.workspace import UNLABELLED, ArchiveKey, ErrorReason, Incarnation, OpId, VolumeRef


class Life(Enum):
    """How alive an instance is."""

    DEAD = auto()  # it exists and does not run
    ALIVE = auto()  # it runs; its port does not answer (yet)
    READY = auto()  # it runs and takes traffic


@dataclass(frozen=True, slots=True)
class InstanceSeen:
    """An instance, or (life None) the certainty that there is none."""

    life: Life | None
    op_id: OpId | None = None  # the STARTING that asked for it, from its label
    endpoint: str | None = None
    message: str = ""  # why it is dead or not ready, for people, where the driver knows
    blameless: bool = False  # what it ran on ended it, to save itself: no fault of the workspace's

    @property
    def exists(self) -> bool:
        return self.life is not None


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    """A volume with what its labels say, or that there is none."""

    exists: bool
    incarnation: Incarnation = UNLABELLED
    uid: str = ""  # drawn by the driver each time it makes a volume: two of one incarnation still differ
    confirmed: bool = False  # of an absence: looked at directly, not only missing from a listing
    whole: bool = False  # marked (actions.MarkWhole): it was live once, or its restore was seen to be complete
    kept: str = ""  # why its driver did not remove it for its archive's sake, untouched: it is newer, or in use

    @property
    def ref(self) -> VolumeRef:
        return VolumeRef(self.incarnation, self.uid or None)


class ArchiveSeen(Enum):
    """The state of one archive key in the store."""

    LISTED = auto()  # object and meta are there
    VERIFIED = auto()  # … and its bytes are what the meta says: the store shows in this look that they are those read
    MISSING = auto()  # object or meta is not there
    CORRUPTED = auto()
    EXPIRED = auto()
    UNREACHABLE = auto()
    TIMEOUT = auto()


class JobState(Enum):
    """A storage job runs, or has ended and waits to be removed."""

    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A storage job of this workspace, named from its op_id."""

    op_id: OpId
    state: JobState
    volume_uid: str = ""  # the volume it was started on, from its label
    restore_marker: ArchiveKey | None = None
    error: ErrorReason = ErrorReason.ACTION_FAILED
    message: str = ""
    progress_at: datetime | None = None  # by its own clock, so only that it changed says that it got further
    bytes_done: int = 0
    files_done: int = 0
    in_use: str = ""  # who else has the home open that was archived, and may have written after it was read


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One workspace's share of a tick's observation."""

    instance: InstanceSeen | None = None
    volume: VolumeSeen | None = None
    archive: ArchiveSeen | None = None  # of the committed archive_key
    op_archive: ArchiveSeen | None = None  # of the key that the current op_id would have
    jobs: tuple[JobSeen, ...] | None = None
    adoption_due: bool = False  # a restored database: the store may have a newer home than the row names
    store_out: bool = False  # the archive store is known to be out: nothing that needs it is started
    # No deadline ran before this: the end of its drivers' last outage, the moment this leader began to look, or the
    # last progress of its job, also of one that is gone by now.
    deadline_from: datetime | None = None

    def job(self, op_id: OpId | None) -> JobSeen | None:
        return next((job for job in self.jobs or () if job.op_id == op_id), None)

    def other_job(self, op_id: OpId | None) -> JobSeen | None:
        return next((job for job in self.jobs or () if job.op_id != op_id), None)
