"""What must hold of one change: an ERROR has a cause, stays until a person answers, and no TTL acts out of turn."""

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.model.suspicion import is_another_store
from codehub.model.workspace import Desired, ErrorReason, Operation, Phase, VolumeState, Workspace

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger

_RECENT = timedelta(minutes=5)  # what was lost or came back so recently may be seen either way
_LOOKED_WITHIN = timedelta(seconds=16)  # the last look before a commit is no older
_UNHEARD = timedelta(seconds=35)  # a proxy tells of a visit this late

_ARCHIVE_LOST = (ErrorReason.ARCHIVE_ACCESS_ERROR, ErrorReason.ARCHIVE_CORRUPTED)
# What a row finds that is older than its home: a person decides.
_OLDER_THAN_THE_WORLD = (*_ARCHIVE_LOST, ErrorReason.DATA_LOST, ErrorReason.VOLUME_UNKNOWN)


def check(ledger: "Ledger", before: Workspace, row: Workspace) -> None:
    was, now = before.status, row.status
    recovered = was.recover_handled_id != now.recover_handled_id
    if was.phase is Phase.ERROR and now.phase is not Phase.ERROR and row.wish.deleted_at is None and not recovered:
        ledger.fail("ERROR ended without a recovery", row.id)
    if now.error_reason is not was.error_reason:
        _check_cause(ledger, row)
    if ledger.is_fair and now.phase is Phase.ERROR and was.phase is not Phase.ERROR:
        _check_fault(ledger, row)
    failed = "did not pass verification" in now.conditions.healthy.message and now.error_count > was.error_count
    if failed and now.op_id == was.op_id:
        ledger.fail("an archive that failed verification is made again under its old op_id", row.id)
    committed = now.archive_key != was.archive_key and was.operation is Operation.ARCHIVING
    if committed and now.home_ctx.volume is not VolumeState.LIVE:
        _check_nobody_writes(ledger, row)


def _check_cause(ledger: "Ledger", row: Workspace) -> None:
    """Nothing is called lost that is there: an outage, or a listing that lacks something, is no loss."""
    expectation, reason = ledger.expected[row.id], row.status.error_reason
    recent = expectation.lost_at is not None and ledger.clock() - expectation.lost_at < _RECENT
    if expectation.damaged or recent or expectation.travelled:
        return
    if reason is ErrorReason.DATA_LOST:
        ledger.fail("DataLost, and nothing was lost", row.id)
    key = row.status.archive_key or row.source_archive
    stored = ledger.surroundings.archive(key)
    if _may_be_called_lost(ledger, row):
        return
    if reason in _ARCHIVE_LOST and stored is not None and stored.has_meta and stored.has_object and not stored.damaged:
        ledger.fail(f"{reason}, and the archive is whole", row.id)


def _may_be_called_lost(ledger: "Ledger", row: Workspace) -> bool:
    """Of an archive that is only away: of few of them, or of the source of a copy, by which nobody judges the others.

    The latter is a limit of the product: a copy that found nothing to copy ends in ERROR, and is made by a recovery.
    """
    if (row.status.archive_key or row.source_archive) not in ledger.surroundings.away:
        return False
    return row.status.archive_key is None or not _looks_like_another_store(ledger)


def _looks_like_another_store(ledger: "Ledger") -> bool:
    """Whether so many archives are away that nobody may believe it: of few, one that is missing is lost."""
    needed = [row.status.archive_key for row in ledger.rows.values() if ledger.is_in_store_alone(row)]
    return is_another_store(sum(key in ledger.surroundings.away for key in needed), len(needed))


def _check_fault(ledger: "Ledger", row: Workspace) -> None:
    """Where nothing happens but outages, only what an accident really took may end in ERROR."""
    expectation = ledger.expected[row.id]
    is_older = expectation.travelled and row.status.error_reason in _OLDER_THAN_THE_WORLD
    if row.status.error_reason in _ARCHIVE_LOST and _may_be_called_lost(ledger, row):
        return
    if not is_older and not expectation.damaged and expectation.lost_at is None:
        message = row.status.conditions.healthy.message
        ledger.fail(f"a false ERROR: {row.status.error_reason}: {message}", row.id)


def _check_nobody_writes(ledger: "Ledger", row: Workspace) -> None:
    instance = ledger.surroundings.of(row).instances.get(row.id)
    if instance is None or instance.volume is not ledger.volume(row):
        return
    if ledger.clock() - ledger.made_at[instance.endpoint] > _LOOKED_WITHIN:
        ledger.fail("an archive was committed while an instance had the home", row.id)


def check_expired(ledger: "Ledger", before: Workspace, row: Workspace) -> None:
    """A TTL changed what is wished for."""
    status, wish = before.status, before.wish
    ledger.trace.note(row.id, f"a TTL asks for {row.wish.desired_state}")
    settled = status.phase.value == wish.desired_state.value and status.operation is Operation.NONE
    if not settled or wish.deleted_at is not None:
        ledger.fail(f"a TTL overwrote {wish.desired_state} in {status.phase}", row.id)
    if row.wish.desired_state is Desired.STANDBY:
        _check_idle(ledger, before)


def _check_idle(ledger: "Ledger", row: Workspace) -> None:
    """Every visit but the newest ones was told to Redis, and heard unless Redis lost it."""
    told = [visit for visit in ledger.expected[row.id].visits if ledger.clock() - visit > _UNHEARD]
    if not told or (ledger.redis_lost_at is not None and ledger.redis_lost_at >= told[-1]):
        return
    if ledger.clock() - told[-1] < timedelta(seconds=row.wish.standby_ttl_seconds):
        ledger.fail("a TTL stopped an active user", row.id)
