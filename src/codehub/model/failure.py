"""Error policy: which failures are retried, when, and which end in ERROR.

Some reasons are terminal at once; ActionFailed becomes RetryExceeded after `max_retry` attempts; Unreachable is an
outage, waited for and never terminal. With deleted_at set nothing is terminal: deletion is retried for as long as it
takes. Nor is a failed ARCHIVING of a home that is still live: it is put off (leaving.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from codehub.model import conditions as c
from codehub.model.sentences import sentence
from codehub.model.workspace import ErrorReason, Operation, Status, Workspace

TERMINAL_AT_ONCE = frozenset(
    {
        ErrorReason.TIMEOUT,
        ErrorReason.DATA_LOST,
        ErrorReason.IMAGE_PULL_FAILED,
        ErrorReason.CONTAINER_WITHOUT_VOLUME,
        ErrorReason.ARCHIVE_CORRUPTED,
        ErrorReason.ARCHIVE_ACCESS_ERROR,
        ErrorReason.VOLUME_UNKNOWN,
    }
)
TERMINAL = TERMINAL_AT_ONCE | {ErrorReason.RETRY_EXCEEDED}

FIRST_DELAY = timedelta(seconds=1)
LONGEST_DELAY = timedelta(minutes=5)
UNKNOWN_DELAY = timedelta(minutes=1)
LONGEST_PUT_OFF = timedelta(hours=6)  # of an archive that cannot be made: leaving.py

_DEFAULT_TIME_LIMITS = {
    Operation.PROVISIONING: timedelta(minutes=2),
    Operation.RESTORING: timedelta(minutes=10),  # without progress
    Operation.STARTING: timedelta(minutes=5),
    Operation.STOPPING: timedelta(minutes=3),
    Operation.ARCHIVING: timedelta(minutes=10),  # without progress
    Operation.CREATE_EMPTY_ARCHIVE: timedelta(minutes=5),
    Operation.DELETING: timedelta(minutes=5),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of the error policy, from configuration."""

    max_retry: int = 3
    time_limits: Mapping[Operation, timedelta] = field(default_factory=lambda: dict(_DEFAULT_TIME_LIMITS))
    crash_loop_window: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure with a sentence for people: what happened, without secrets and without a stack trace."""

    reason: ErrorReason
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", sentence(self.message))


def is_terminal(reason: ErrorReason | None) -> bool:
    return reason in TERMINAL


def backoff(attempts: int) -> timedelta:
    """The pause after that many failed attempts: 1 s, 2 s, 4 s … at most 5 min."""
    if attempts < 1:
        return timedelta(0)
    doublings = min(attempts - 1, 20)  # far beyond the longest delay, and no overflow
    return min(FIRST_DELAY * (1 << doublings), LONGEST_DELAY)


def outage_backoff(waiting_for: timedelta) -> timedelta:
    """The pause during an outage: a quarter of the wait so far, so the pauses grow without a counter."""
    if waiting_for < timedelta(0):  # it began before the clock jumped back: nobody knows for how long
        return UNKNOWN_DELAY
    return min(max(waiting_for / 4, FIRST_DELAY), LONGEST_DELAY)


def after_failure(workspace: Workspace, fault: Fault, now: datetime) -> Status:
    """The status after an action failed: what is counted, and when the next attempt may be made.

    It never ends an operation: whether the failure is terminal is for `ending_fault` to say at the next tick, which
    also sees to it that no job of the operation is left. What fails outside an operation is tidying up: it is tried
    again, and changes nothing about the error that a person is to answer.
    """
    status = workspace.status
    ending = is_terminal(status.error_reason) and workspace.wish.deleted_at is None
    if status.operation is Operation.NONE or ending:
        pause = FIRST_DELAY
        if fault.reason is ErrorReason.UNREACHABLE:
            pause = outage_backoff(now - status.phase_changed_at)
        return replace(status, retry_at=max(now + pause, status.retry_at or now))
    return counted(workspace, fault, now)


def counted(workspace: Workspace, fault: Fault, now: datetime) -> Status:
    """The status after one more failed attempt of what the workspace is to do; an outage is not counted."""
    healthy = replace(workspace.status.conditions.healthy, message=fault.message)
    status = replace(
        workspace.status,
        conditions=workspace.status.conditions.with_health(healthy),
        error_reason=fault.reason,
    )
    if fault.reason is ErrorReason.UNREACHABLE:
        since = status.op_started_at or status.phase_changed_at
        return replace(status, retry_at=now + outage_backoff(now - since))
    count = status.error_count + 1
    return replace(status, error_count=count, retry_at=now + backoff(count))


def ending_fault(workspace: Workspace, rules: Rules) -> Fault | None:
    """Why retrying is over, as far as the row itself tells."""
    status = workspace.status
    reason = status.error_reason
    if workspace.wish.deleted_at is not None or reason is None or reason is ErrorReason.UNREACHABLE:
        return None
    if is_put_off(status):
        return None
    if reason in TERMINAL:
        # Once it is judged, the message is health's and begins with the cause.
        known = status.conditions.healthy.reason == reason
        return Fault(reason, "" if known else status.conditions.healthy.message)
    if status.error_count >= rules.max_retry:
        return Fault(ErrorReason.RETRY_EXCEEDED, status.conditions.healthy.message)
    return None


def deadline(status: Status, deadline_from: datetime | None, now: datetime, rules: Rules) -> datetime | None:
    """Until when the operation must get further; None while there is none. `deadline_from`: no limit ran before.

    A job's progress is in there, by the clock of whoever saw it: its own may be a day off. So is retry_at, since an
    attempt that could not reach something was an outage, however well the listings went. What lies ahead is from
    before the clock jumped back: deadline_from counts anew from there.
    """
    if status.operation is Operation.NONE or status.op_started_at is None:
        return None
    marks = (status.op_started_at, status.phase_changed_at, status.retry_at, deadline_from)
    last = max((mark for mark in marks if mark is not None and mark <= now), default=now)
    return last + rules.time_limits[status.operation]


def is_put_off(status: Status) -> bool:
    """Whether an ARCHIVING failed, left the home as it was, and is tried again after a pause."""
    failed = status.operation is Operation.NONE and status.error_reason is ErrorReason.ACTION_FAILED
    return failed and status.conditions.healthy.reason == c.ARCHIVE_FAILED


def is_waiting(status: Status, now: datetime) -> bool:
    """Whether the pause after a failure is still on. What ends later than any pause is from before the clock jumped."""
    longest = LONGEST_PUT_OFF if is_put_off(status) else LONGEST_DELAY
    return status.retry_at is not None and now < status.retry_at <= now + longest
