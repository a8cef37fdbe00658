"""Recovery: how a person's answer to an ERROR is honoured, once.

A plain recovery only clears the error; the state is judged anew in the same tick, so a loss that is still there stays
an ERROR. Naming a source settles what the home is from now on. A half-restored home is never made live, nor is a
condemned one once its removal was asked for, while its archive is intact; a volume that nothing proves whole only when
that was forced. A whole volume is given up only when that was forced, and then for good; a volume that may be half
restored, for the archive.
"""

from dataclasses import replace

from codehub.model import conditions as c
from codehub.model.finishing import finishing
from codehub.model.observation import Seen, VolumeSeen
from codehub.model.observe import is_live, is_unknown, is_unproven
from codehub.model.suspicion import is_volume_lost
from codehub.model.workspace import (
    MAX_RETIRED,
    HomeContext,
    Phase,
    RecoverFrom,
    RecoverRequest,
    Status,
    VolumeState,
    Workspace,
)


def is_pending(workspace: Workspace) -> bool:
    """Whether there is a request that was not answered yet."""
    request = workspace.wish.recover_request
    return request is not None and request.id != workspace.status.recover_handled_id


def honour(workspace: Workspace, seen: Seen) -> Status:
    """The status after the pending request; unchanged when there is none, or while the volume cannot be looked at."""
    status = workspace.status
    request = workspace.wish.recover_request
    if request is None or not is_pending(workspace) or seen.volume is None:
        return status
    if request.source is RecoverFrom.VOLUME and finishing(workspace, seen) is not None:
        return status  # what it is about to say of the volume decides
    if is_volume_lost(workspace, seen) is None:
        return status  # whether the home is really gone must be looked at directly first
    handled = replace(status, recover_handled_id=request.id)
    overtaken = workspace.wish.deleted_at is not None or status.phase is not Phase.ERROR
    if overtaken or request.answers != status.error_reason:
        return handled  # it answers an error that is no longer the matter
    home = _recovered_home(status, request, seen.volume)
    if home is None:
        return handled
    return replace(
        handled,
        home_ctx=home,
        archive_key=None if request.source is RecoverFrom.BLANK else status.archive_key,
        error_reason=None,
        error_count=0,
        retry_at=None,
    )


def is_refused(status: Status, source: RecoverFrom, *, forced: bool) -> str | None:
    """Why this source cannot be recovered from, as far as the last observation tells; None when it can."""
    conditions = status.conditions
    if source in (RecoverFrom.ARCHIVE, RecoverFrom.BLANK) and not forced:
        if conditions.volume_ready.status:
            return "A whole home volume exists. Recover from the volume, or force this to give the volume up."
        if conditions.volume_ready.reason == c.VOLUME_UNKNOWN:
            return "A volume exists. Recover from the volume, or force this to give the volume up."
        if conditions.volume_ready.reason == c.VOLUME_UNPROVEN and source is RecoverFrom.BLANK:
            return "A volume exists that may be partly restored. Recover from the archive, or force this to give it up."
    if source is RecoverFrom.ARCHIVE and status.archive_key is None:
        return "There is no archive to recover from."
    if source is RecoverFrom.VOLUME and conditions.volume_ready.reason == c.VOLUME_NOT_FOUND:
        return "There is no volume to recover from."
    if source is RecoverFrom.VOLUME and conditions.volume_ready.reason == c.RESTORE_INCOMPLETE:
        return "The volume was only partly restored. Recover from the archive."
    if source is RecoverFrom.VOLUME and conditions.volume_ready.reason == c.VOLUME_UNPROVEN and not forced:
        return (
            "The volume may be only partly restored. Recover from the archive, or force this if you know that the "
            "volume is whole."
        )
    given_up = status.home_ctx.volume is not VolumeState.CONDEMNED
    if source is RecoverFrom.VOLUME and conditions.volume_ready.reason == c.VOLUME_CONDEMNED and given_up:
        return "The volume is an old one that was given up. Recover from the archive or from a blank home."
    another = conditions.volume_ready.reason == c.VOLUME_UNKNOWN  # … than the one that was condemned
    if source is RecoverFrom.VOLUME and _is_condemned_with_archive(status) and not another:
        return "The volume may be partly deleted, and its archive is intact. Recover from the archive."
    return None


def _recovered_home(status: Status, request: RecoverRequest, volume: VolumeSeen) -> HomeContext | None:
    """What the home is from now on, or None when the source is refused after all."""
    home = status.home_ctx
    match request.source:
        case RecoverFrom.AS_IS:
            return home
        case RecoverFrom.VOLUME:
            own = volume.incarnation == home.incarnation
            half_restored = own and home.volume is VolumeState.RESTORING and not volume.whole
            moved_on_from = volume.incarnation in home.retired  # half-made, half-deleted or given up by force
            if own and home.volume is VolumeState.CONDEMNED and home.uid not in (None, volume.uid):
                return None  # a blank one that a late creation put in its place
            if half_restored or moved_on_from or (own and _is_condemned_with_archive(status)):
                return None
            if not volume.exists:
                return None
            if is_live(home, volume):
                return replace(home, uid=volume.uid, restore_marker=None)
            if is_unproven(volume) and not request.forced:
                return None
            return HomeContext(
                volume=VolumeState.LIVE,
                incarnation=volume.incarnation,
                uid=volume.uid,
                retired=home.retired,
                blank=home.blank,
            )
        case RecoverFrom.ARCHIVE | RecoverFrom.BLANK:
            if request.source is RecoverFrom.ARCHIVE and status.archive_key is None:
                return None
            if is_live(home, volume) and not request.forced:
                return None
            blank = request.source is RecoverFrom.BLANK
            half = not blank and is_unknown(home, volume) and is_unproven(volume)
            return _given_up(home, volume, for_good=request.forced or half, blank=blank)


def _given_up(home: HomeContext, volume: VolumeSeen, *, for_good: bool, blank: bool) -> HomeContext:
    """The home without its volume. One that was lost may yet come back, and stays unless it is given up for good."""
    retired = home.retired
    lost = home.volume is VolumeState.LIVE and not is_live(home, volume)
    if home.incarnation is not None and not lost:
        retired = (*retired, home.incarnation)
    if for_good and volume.exists:
        retired = (*retired, volume.incarnation)
    # No instance_op: one that still runs has the old home, so nobody asked for it any more.
    return HomeContext(retired=retired[-MAX_RETIRED:], blank=blank or home.blank)


def _is_condemned_with_archive(status: Status) -> bool:
    archive_lost = status.conditions.archive_ready.reason in c.TERMINAL_ARCHIVE_REASONS
    condemned = status.home_ctx.volume is VolumeState.CONDEMNED and status.home_ctx.removal_asked
    return condemned and status.archive_key is not None and not archive_lost
