"""Losses are never concluded from a listing alone.

A listing that lacks a volume which should be there makes that volume a suspect: it is looked at directly once more
before any rule may call it lost. Many suspects at once are an outage of the listing, not a loss of many homes. So are
many missing archives: of those the store is at fault.
"""

from typing import Literal

from codehub.model.observation import ArchiveSeen, JobState, Seen, VolumeSeen
from codehub.model.workspace import HomeContext, InstanceBackend, Operation, VolumeState, Workspace

# Below the first number any share of suspects is plausible (one node died); above it the share decides.
OUTAGE_FROM_COUNT = 3
OUTAGE_FROM_SHARE = 0.2

# Where something may be missing: archives in the store, or homes on a backend.
ARCHIVES: Literal["archives"] = "archives"
Place = InstanceBackend | Literal["archives"]


def is_relied_on(home: HomeContext, volume: VolumeSeen) -> bool:
    """Whether this is the very volume that holds the row's whole home."""
    same = volume.incarnation == home.incarnation and home.uid in (None, volume.uid)
    return volume.exists and home.volume is VolumeState.LIVE and same


def is_volume_suspect(workspace: Workspace, volume: VolumeSeen | None) -> bool:
    """Whether the row relies on a whole home that a listing did not show: it must be looked at directly."""
    relied_on = workspace.status.home_ctx.volume is VolumeState.LIVE and workspace.wish.deleted_at is None
    return relied_on and volume is not None and not volume.exists and not volume.confirmed


def is_absence_unsure(workspace: Workspace, seen: Seen) -> bool:
    """Whether only a listing lacks the volume that a RESTORING has worked on, or that goes with its workspace."""
    status, volume = workspace.status, seen.volume
    if volume is None or volume.exists or volume.confirmed:
        return False
    if workspace.wish.deleted_at is not None:
        return status.home_ctx.volume is not VolumeState.NONE
    worked = seen.job(status.op_id) is not None or status.home_ctx.restore_marker is not None
    return status.operation is Operation.RESTORING and worked


def looks_like_outage(suspects: int, relied_on: int) -> bool:
    """Whether so many homes are missing at once that the driver, not the homes, must be at fault."""
    return suspects > OUTAGE_FROM_COUNT and suspects > relied_on * OUTAGE_FROM_SHARE


def is_another_store(missing: int, looked_for: int) -> bool:
    """Whether so many archives are missing that this is not the store, or not the place in it, where they were put."""
    return looks_like_outage(missing, looked_for) or missing == looked_for > 1


def is_volume_lost(workspace: Workspace, seen: Seen) -> bool | None:
    """Whether the whole home that the row relies on is gone for certain; None while that cannot be told."""
    home = workspace.status.home_ctx
    volume = seen.volume
    if home.volume is not VolumeState.LIVE:
        return False
    if volume is None:
        return None
    if is_relied_on(home, volume):
        return False
    if not volume.exists and not volume.confirmed:
        return None
    return _is_not_archived(workspace, seen)


def _is_not_archived(workspace: Workspace, seen: Seen) -> bool | None:
    """Of a home that vanished: None while it is, or may be, whole in the archive of the ARCHIVING in progress."""
    if workspace.status.operation is not Operation.ARCHIVING:
        return True
    if seen.instance is not None and seen.instance.exists:
        return True  # it may have written after the archive was made
    job = seen.job(workspace.status.op_id)
    if seen.instance is None or seen.jobs is None or (job is not None and job.state is JobState.RUNNING):
        return None
    if seen.op_archive in (ArchiveSeen.MISSING, ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED):
        return True
    return None  # the commit decides; until then nothing is concluded
