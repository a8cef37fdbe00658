"""policy.healthy: whether a person has to look, why, and what to do next.

Three causes in this order: a container without its volume; an archive that is gone for good with no live volume;
a terminal error_reason, which is what keeps ERROR until a person recovers it. A live home that vanished (DataLost)
takes precedence over the container that still runs on it: the container is removed and the loss remains.
"""

from datetime import datetime

from codehub.model import conditions as c
from codehub.model.conditions import Condition, Conditions
from codehub.model.failure import Fault, is_terminal
from codehub.model.observation import Seen, VolumeSeen
from codehub.model.observe import is_unknown, is_unproven
from codehub.model.suspicion import is_volume_lost
from codehub.model.workspace import ErrorReason, HomeContext, Workspace

ADVICE = {
    ErrorReason.TIMEOUT: "An operation took too long. Recover the workspace to try again.",
    ErrorReason.DATA_LOST: (
        "The home volume has disappeared. Recover from the last archive or from a blank home, "
        "or bring the volume back and recover."
    ),
    ErrorReason.IMAGE_PULL_FAILED: "The image could not be fetched. Choose another image or fix it, then recover.",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: (
        "A container was running without its home; it is being removed. Recover to go on."
    ),
    ErrorReason.ARCHIVE_CORRUPTED: (
        "The archive is damaged. Upload it again and recover, or recover from the volume or from a blank home."
    ),
    ErrorReason.ARCHIVE_ACCESS_ERROR: (
        "The archive is missing or no longer served. Bring it back and recover, or recover from a blank home."
    ),
    ErrorReason.VOLUME_UNKNOWN: (
        "There is a volume that CodeHub did not make for this home, or that is newer than a restored database. Recover "
        "from the volume to use it, or remove it and recover."
    ),
    ErrorReason.RETRY_EXCEEDED: "An operation failed again and again. Recover the workspace to try once more.",
}


def judge(conditions: Conditions, error_reason: ErrorReason | None, now: datetime, detail: str = "") -> Condition:
    """policy.healthy from the observed conditions and the row's error, the first cause that holds."""
    before = conditions.healthy
    if conditions.container_ready.status and not conditions.volume_ready.status:
        advice = ADVICE[ErrorReason.CONTAINER_WITHOUT_VOLUME]
        return before.seen_as(False, c.CONTAINER_WITHOUT_VOLUME, advice, now)
    if conditions.archive_ready.reason in c.TERMINAL_ARCHIVE_REASONS and not conditions.volume_ready.status:
        advice = ADVICE[_archive_error(conditions)]
        kept = before.message if before.message.endswith(advice) and not detail else ""
        return before.seen_as(False, c.ARCHIVE_ACCESS_ERROR, kept or f"{detail} {advice}".strip(), now)
    if error_reason is not None and is_terminal(error_reason):
        # What was said when the error arose stays, as long as it is the same error.
        kept = before.message if before.reason == error_reason and not detail else ""
        message = kept or f"{detail} {ADVICE[error_reason]}".strip()
        return before.seen_as(False, error_reason, message, now)
    # While something is being retried, the message names its last failure.
    if error_reason is None:
        return before.seen_as(True, c.ALL_CONDITIONS_MET, _all_is_well(conditions), now)
    warned = before.reason == c.ARCHIVE_FAILED
    return before.seen_as(True, c.ARCHIVE_FAILED if warned else c.ALL_CONDITIONS_MET, before.message, now)


def lasting_fault(workspace: Workspace, seen: Seen) -> Fault | None:
    """A cause for ERROR that lies in the state itself; judged at every tick, in ERROR and after a recovery too.

    `workspace` carries the conditions of this look. Deleted workspaces have none: nothing is terminal for them.
    """
    if workspace.wish.deleted_at is not None:
        return None
    status = workspace.status
    conditions = status.conditions
    if is_volume_lost(workspace, seen):
        return Fault(ErrorReason.DATA_LOST, _instead(status.home_ctx, seen.volume))
    if is_unknown(status.home_ctx, seen.volume):
        return Fault(ErrorReason.VOLUME_UNKNOWN, _doubt(seen.volume))
    if conditions.container_ready.status and not conditions.volume_ready.status:
        return _fault(ErrorReason.CONTAINER_WITHOUT_VOLUME)
    if conditions.archive_ready.reason in c.TERMINAL_ARCHIVE_REASONS and not conditions.volume_ready.status:
        return _fault(_archive_error(conditions))
    return None


def _all_is_well(conditions: Conditions) -> str:
    if conditions.archive_ready.reason in c.TERMINAL_ARCHIVE_REASONS:
        return "The last archive is lost; the home itself is whole, and the next archive replaces it."
    return "All is well."


def _archive_error(conditions: Conditions) -> ErrorReason:
    corrupted = conditions.archive_ready.reason == c.ARCHIVE_CORRUPTED
    return ErrorReason.ARCHIVE_CORRUPTED if corrupted else ErrorReason.ARCHIVE_ACCESS_ERROR


def _instead(home: HomeContext, volume: VolumeSeen | None) -> str:
    """Of a home that is gone: what is in its place, as after a restored database."""
    if not is_unknown(home, volume):
        return ""
    return _doubt(volume) or "Another volume is in its place. If that is the home, recover from the volume."


def _doubt(volume: VolumeSeen | None) -> str:
    if volume is None or not is_unproven(volume):
        return ""
    return (
        "The volume that is there may be only partly restored. Recover from the archive, "
        "or force a recovery from the volume if you know that it is whole."
    )


def _fault(reason: ErrorReason) -> Fault:
    return Fault(reason, "")
