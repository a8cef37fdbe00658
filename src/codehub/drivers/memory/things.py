"""What there is in a memory world. Plain data that tests may read and change."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from codehub.drivers.base import InstanceUsage
from codehub.model.observation import JobState, Life
from codehub.model.workspace import ArchiveKey, ErrorReason, Incarnation, OpId, WorkspaceId

Home = dict[str, bytes]


@dataclass(eq=False)
class Volume:
    """A home. It is itself even when another one takes its place: instances and jobs hold on to what they mounted."""

    incarnation: Incarnation
    uid: str
    home: Home = field(default_factory=dict)
    marked: bool = False  # by mark_whole
    whole: bool = True  # False while a restore has put only part of it there
    restored_by: OpId | None = None


@dataclass(eq=False)
class Instance:
    op_id: OpId
    image_ref: str
    volume: Volume
    life: Life
    endpoint: str
    evicted: bool = False  # dead, and not by itself: what it ran on ended it
    log: list[str] = field(default_factory=list)
    usage: InstanceUsage = field(default_factory=lambda: InstanceUsage(cpu_seconds=0.0, memory_bytes=1 << 20, ports=()))


class JobKind(Enum):
    ARCHIVE = auto()
    RESTORE = auto()


@dataclass(eq=False)
class Job:
    op_id: OpId
    workspace_id: WorkspaceId
    kind: JobKind
    volume: Volume
    key: ArchiveKey
    progress_at: datetime
    state: JobState = JobState.RUNNING
    steps: int = 0
    error: ErrorReason = ErrorReason.ACTION_FAILED
    message: str = ""
    bytes_done: int = 0
    files_done: int = 0


@dataclass(eq=False)
class Stored:
    """An archive key in the store, whole or not."""

    home: Home
    modified_at: datetime
    has_object: bool = True
    has_meta: bool = True
    damaged: bool = False  # reading it back shows it
    misfit: bool = False  # … and so does a look: the size or the meta is wrong
    expired: bool = False
