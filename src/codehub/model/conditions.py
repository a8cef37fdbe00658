"""Conditions: the observed facts a phase is derived from, and how a new observation is merged in.

`last_transition_time` changes only when `status` changes; an observation that changes nothing yields an equal value,
so that nothing is written for it. Unknown keys written by a newer version survive a round trip.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

VOLUME_READY = "storage.volume_ready"
ARCHIVE_READY = "storage.archive_ready"
CONTAINER_READY = "infra.container_ready"
HEALTHY = "policy.healthy"
ARCHIVE_ADOPTED = "storage.archive_adopted"  # for its owner: a restored database was given a newer archive of it

NOT_OBSERVED = "NotObserved"

VOLUME_PROVISIONED = "VolumeProvisioned"
VOLUME_NOT_FOUND = "VolumeNotFound"
RESTORE_INCOMPLETE = "RestoreIncomplete"
VOLUME_CONDEMNED = "VolumeCondemned"
VOLUME_UNKNOWN = "VolumeUnknown"
VOLUME_UNPROVEN = "VolumeUnproven"  # unknown, and not marked as whole: a restore into it may not have ended

CONTAINER_RUNNING = "ContainerRunning"
CONTAINER_NOT_RUNNING = "ContainerNotRunning"  # it exists but is dead, or is not ready yet
CONTAINER_NOT_FOUND = "ContainerNotFound"

ARCHIVE_UPLOADED = "ArchiveUploaded"
ARCHIVE_CORRUPTED = "ArchiveCorrupted"
ARCHIVE_EXPIRED = "ArchiveExpired"
ARCHIVE_NOT_FOUND = "ArchiveNotFound"
ARCHIVE_UNREACHABLE = "ArchiveUnreachable"
ARCHIVE_TIMEOUT = "ArchiveTimeout"
NO_ARCHIVE = "NoArchive"

RESTORED_FROM_ARCHIVE = "RestoredFromArchive"

ALL_CONDITIONS_MET = "AllConditionsMet"
ARCHIVE_FAILED = "ArchiveFailed"  # healthy, with a warning: the home could not be archived, and is whole
CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
ARCHIVE_ACCESS_ERROR = "ArchiveAccessError"

TERMINAL_ARCHIVE_REASONS = frozenset({ARCHIVE_CORRUPTED, ARCHIVE_EXPIRED, ARCHIVE_NOT_FOUND})
TRANSIENT_ARCHIVE_REASONS = frozenset({ARCHIVE_UNREACHABLE, ARCHIVE_TIMEOUT})


@dataclass(frozen=True, slots=True)
class Condition:
    """One observed fact; `last_transition_time` is when `status` last changed."""

    status: bool
    reason: str = NOT_OBSERVED
    message: str = ""
    last_transition_time: datetime | None = None

    def seen_as(self, status: bool, reason: str, message: str, now: datetime) -> "Condition":
        """This condition after a new look at the same fact."""
        if self.last_transition_time and (status, reason, message) == (self.status, self.reason, self.message):
            return self
        since = self.last_transition_time if status == self.status and self.last_transition_time else now
        return Condition(status, reason, message, since)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The four facts every rule reads, with their values before the first observation, and any others kept as found."""

    volume_ready: Condition = Condition(status=False)
    archive_ready: Condition = Condition(status=False)
    container_ready: Condition = Condition(status=False)
    healthy: Condition = Condition(status=True)
    others: Mapping[str, Any] = field(default_factory=dict)

    def with_health(self, healthy: Condition) -> "Conditions":
        return self if healthy is self.healthy else replace(self, healthy=healthy)


def archive_adopted(archived_at: datetime, database_of: datetime, now: datetime) -> tuple[str, Condition]:
    """The key and the condition that tell an owner that the archive is newer than what the database remembers."""
    sentence = (
        f"Restored from your archive of {_minute(archived_at)}; the database was restored to {_minute(database_of)}."
    )
    return ARCHIVE_ADOPTED, Condition(True, RESTORED_FROM_ARCHIVE, sentence, now)


def without_adoption(conditions: Conditions) -> Conditions:
    """Once there is an archive that is newer still."""
    if ARCHIVE_ADOPTED not in conditions.others:
        return conditions
    return replace(
        conditions, others={key: value for key, value in conditions.others.items() if key != ARCHIVE_ADOPTED}
    )


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def from_json(stored: Mapping[str, Any]) -> Conditions:
    """Read the column. Missing keys, and missing fields of a key, take their defaults."""
    known = {VOLUME_READY, ARCHIVE_READY, CONTAINER_READY, HEALTHY}
    return Conditions(
        volume_ready=_condition(stored.get(VOLUME_READY), default=False),
        archive_ready=_condition(stored.get(ARCHIVE_READY), default=False),
        container_ready=_condition(stored.get(CONTAINER_READY), default=False),
        healthy=_condition(stored.get(HEALTHY), default=True),
        others={key: value for key, value in stored.items() if key not in known},
    )


def to_json(conditions: Conditions) -> dict[str, Any]:
    """Write the column; a condition never observed is left out, so a new row keeps `{}`."""
    named = {
        VOLUME_READY: (conditions.volume_ready, _UNOBSERVED.volume_ready),
        ARCHIVE_READY: (conditions.archive_ready, _UNOBSERVED.archive_ready),
        CONTAINER_READY: (conditions.container_ready, _UNOBSERVED.container_ready),
        HEALTHY: (conditions.healthy, _UNOBSERVED.healthy),
    }
    observed = {key: stored(condition) for key, (condition, unobserved) in named.items() if condition != unobserved}
    return {**conditions.others, **observed}


_UNOBSERVED = Conditions()


def stored(condition: Condition) -> dict[str, Any]:
    """One condition as the column has it."""
    since = condition.last_transition_time
    return {
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "last_transition_time": since.isoformat() if since else None,
    }


def _condition(stored: object, *, default: bool) -> Condition:
    """One condition as stored; whatever is not what it should be takes its default."""
    if not isinstance(stored, Mapping):
        return Condition(status=default)
    status, reason, message = stored.get("status"), stored.get("reason"), stored.get("message")
    return Condition(
        status=status if isinstance(status, bool) else default,
        reason=reason if isinstance(reason, str) else NOT_OBSERVED,
        message=message if isinstance(message, str) else "",
        last_transition_time=_time(stored.get("last_transition_time")),
    )


def _time(stored: object) -> datetime | None:
    try:
        return datetime.fromisoformat(stored) if isinstance(stored, str) else None
    except ValueError:
        return None
