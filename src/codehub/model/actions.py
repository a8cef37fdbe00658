"""Everything the controller may ask of the drivers and the store, as values.

Each is safe to repeat. Each names what it is about (op_id, volume), so that a driver can refuse one that is old.
Success of an action completes nothing: only the next observation does.
"""

from dataclasses import dataclass

from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef


@dataclass(frozen=True, slots=True)
class StartInstance:
    op_id: OpId
    image_ref: str
    volume: VolumeRef
    safe_mode: bool = False


@dataclass(frozen=True, slots=True)
class RemoveInstance:
    """Kill and remove whatever instance there is."""


@dataclass(frozen=True, slots=True)
class CreateVolume:
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Refused by the driver when the volume there is another one, or is in use by an instance or a job.

    `archived`: it goes because this operation's archive holds it, and stays if it is known to be newer.
    """

    volume: VolumeRef
    archived: OpId | None = None


@dataclass(frozen=True, slots=True)
class MarkWhole:
    """Note beside the volume that it holds a whole home: nobody has worked in one before it is marked.

    The database may forget that (a restored backup, lost commits); then the mark is what says so.
    """

    volume: VolumeRef


@dataclass(frozen=True, slots=True)
class StartArchiveJob:
    op_id: OpId
    volume: VolumeRef


@dataclass(frozen=True, slots=True)
class StartRestoreJob:
    op_id: OpId
    archive_key: ArchiveKey
    volume: VolumeRef


@dataclass(frozen=True, slots=True)
class RemoveJob:
    """Kill it if it runs, then remove it."""

    op_id: OpId


@dataclass(frozen=True, slots=True)
class MakeArchive:
    """Put an archive under the op_id's key without a volume: an empty one, or a copy inside the store."""

    op_id: OpId
    source: ArchiveKey | None = None


Action = (
    StartInstance
    | RemoveInstance
    | CreateVolume
    | DeleteVolume
    | MarkWhole
    | StartArchiveJob
    | StartRestoreJob
    | RemoveJob
    | MakeArchive
)

DESTRUCTIVE = (RemoveInstance, DeleteVolume, RemoveJob)  # only under freshly confirmed leadership
