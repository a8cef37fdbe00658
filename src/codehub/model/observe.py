"""From a look at the infrastructure to conditions.

What could not be looked at keeps its last condition: "could not look" is never "is not there". A volume counts only
when it is the incarnation this row made and its home is whole; an instance counts only when an operation asked for it.
"""

from dataclasses import replace
from datetime import datetime

from codehub.model import conditions as c
from codehub.model.conditions import Condition, Conditions
from codehub.model.observation import ArchiveSeen, InstanceSeen, Life, Seen, VolumeSeen
from codehub.model.suspicion import is_absence_unsure, is_relied_on, is_volume_lost
from codehub.model.workspace import UNLABELLED, ErrorReason, HomeContext, Operation, VolumeState, Workspace

_ARCHIVE_FACTS = {
    ArchiveSeen.LISTED: (True, c.ARCHIVE_UPLOADED, "The archive is in the store."),
    ArchiveSeen.VERIFIED: (True, c.ARCHIVE_UPLOADED, "The archive is in the store."),
    ArchiveSeen.MISSING: (False, c.ARCHIVE_NOT_FOUND, "The archive is not in the store."),
    ArchiveSeen.CORRUPTED: (False, c.ARCHIVE_CORRUPTED, "The archive's size or checksum is wrong."),
    ArchiveSeen.EXPIRED: (False, c.ARCHIVE_EXPIRED, "The store keeps the archive but no longer serves it."),
    ArchiveSeen.UNREACHABLE: (False, c.ARCHIVE_UNREACHABLE, "The archive store cannot be reached."),
    ArchiveSeen.TIMEOUT: (False, c.ARCHIVE_TIMEOUT, "The archive store did not answer in time."),
}

# A look that reads nothing of an archive says nothing about what is in it.
_NO_WORD_ON_CONTENT = (None, ArchiveSeen.LISTED, ArchiveSeen.UNREACHABLE, ArchiveSeen.TIMEOUT)


def observe(workspace: Workspace, seen: Seen, now: datetime) -> Conditions:
    """The conditions after this look; `policy.healthy` is judged later (health.py)."""
    status = workspace.status
    before = status.conditions
    volume = _volume(before.volume_ready, workspace, seen, now)
    archive = _archive(before.archive_ready, workspace, seen.archive, now)
    container = _container(before.container_ready, workspace, seen, now)
    if volume is before.volume_ready and archive is before.archive_ready and container is before.container_ready:
        return before  # most looks change nothing, and then nothing is made anew
    return replace(before, volume_ready=volume, archive_ready=archive, container_ready=container)


def is_live(home: HomeContext, volume: VolumeSeen | None) -> bool:
    """Whether the volume seen is the whole home this row relies on."""
    return volume is not None and is_relied_on(home, volume)


def is_unknown(home: HomeContext, volume: VolumeSeen | None) -> bool:
    """Whether a volume is there that no operation of this row made: a person decides, nothing removes it."""
    return volume is not None and volume.exists and not is_live(home, volume) and not home.knows(volume.incarnation)


def is_unproven(volume: VolumeSeen) -> bool:
    """Whether a volume of our making is not known to hold a whole home: nobody has worked in it, or we cannot tell.

    One without a label was made by a person, whose word counts.
    """
    return volume.exists and not volume.whole and volume.incarnation != UNLABELLED


def lacks_mark(volume: VolumeSeen) -> bool:
    """Whether a live home is still to be marked as whole. Without a uid there is nothing that a mark could name."""
    return volume.exists and not volume.whole and volume.uid != ""


def is_leftover(home: HomeContext, volume: VolumeSeen | None) -> bool:
    """Whether a volume is there that this row made and has no use for any more."""
    return volume is not None and volume.exists and not is_live(home, volume) and home.knows(volume.incarnation)


def is_asked_for(home: HomeContext, instance: InstanceSeen | None) -> bool:
    """Whether the instance is the one that this row's last STARTING asked for."""
    return instance is not None and instance.exists and instance.op_id == home.instance_op


def _volume(before: Condition, workspace: Workspace, seen: Seen, now: datetime) -> Condition:
    home, volume = workspace.status.home_ctx, seen.volume
    undecided = workspace.wish.deleted_at is None and is_volume_lost(workspace, seen) is None
    undecided = undecided or is_absence_unsure(workspace, seen)
    if volume is None or undecided:
        return before
    if not volume.exists:
        return before.seen_as(False, c.VOLUME_NOT_FOUND, "There is no home volume.", now)
    if is_live(home, volume):
        return before.seen_as(True, c.VOLUME_PROVISIONED, "The home volume is ready.", now)
    if is_unknown(home, volume) and is_unproven(volume):
        return before.seen_as(False, c.VOLUME_UNPROVEN, "There is a volume that may be only partly restored.", now)
    if is_unknown(home, volume):
        return before.seen_as(
            False, c.VOLUME_UNKNOWN, "There is a volume that CodeHub did not make for this home.", now
        )
    if home.volume is VolumeState.RESTORING and volume.incarnation == home.incarnation:
        return before.seen_as(False, c.RESTORE_INCOMPLETE, "The home is being restored.", now)
    return before.seen_as(False, c.VOLUME_CONDEMNED, "An old volume is waiting to be removed.", now)


def _archive(before: Condition, workspace: Workspace, archive: ArchiveSeen | None, now: datetime) -> Condition:
    if workspace.status.archive_key is None:
        return before.seen_as(False, c.NO_ARCHIVE, "Nothing was archived yet.", now)
    if _was_found_damaged(workspace) and archive in _NO_WORD_ON_CONTENT:
        return before.seen_as(False, c.ARCHIVE_CORRUPTED, "A restore found the archive damaged.", now)
    if archive is None:
        return before
    found, reason, message = _ARCHIVE_FACTS[archive]
    return before.seen_as(found, reason, message, now)


def _was_found_damaged(workspace: Workspace) -> bool:
    """By a restore, which reads every byte. It stands until a person says otherwise, by a recovery."""
    status = workspace.status
    in_error = status.operation is Operation.NONE and status.error_reason is ErrorReason.ARCHIVE_CORRUPTED
    return in_error and workspace.wish.deleted_at is None


def _container(before: Condition, workspace: Workspace, seen: Seen, now: datetime) -> Condition:
    status, instance = workspace.status, seen.instance
    if instance is None:
        return before
    if not instance.exists and seen.jobs and workspace.wish.deleted_at is not None:
        return before.seen_as(False, c.CONTAINER_NOT_RUNNING, "A storage job is being removed.", now)
    if not instance.exists:
        return before.seen_as(False, c.CONTAINER_NOT_FOUND, "There is no container.", now)
    if not is_asked_for(status.home_ctx, instance):
        return before.seen_as(
            False, c.CONTAINER_NOT_RUNNING, "A container that nobody asked for is being removed.", now
        )
    if instance.life is Life.DEAD:
        return before.seen_as(False, c.CONTAINER_NOT_RUNNING, _with("The container has stopped.", instance), now)
    # Readiness decides only whether STARTING is complete; from then on, alive counts as ready.
    if status.operation is Operation.STARTING and (instance.life is Life.ALIVE or seen.jobs != ()):
        return before.seen_as(False, c.CONTAINER_NOT_RUNNING, _with("The container is starting.", instance), now)
    return before.seen_as(True, c.CONTAINER_RUNNING, "The container is running.", now)


def _with(fact: str, instance: InstanceSeen) -> str:
    return f"{fact} {instance.message}".rstrip()
