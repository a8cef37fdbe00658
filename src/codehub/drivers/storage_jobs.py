"""What every driver of containers says to a storage job and reads from it: see storage_job/protocol.py. Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import ArchiveKey, ErrorReason, OpId

# Exit codes that are more than "try again".
_ERRORS = {
    11: ErrorReason.UNREACHABLE,
    20: ErrorReason.ARCHIVE_CORRUPTED,
}
# What a job needs to write a home as it was: owners and modes of files that are not its own, and unreadable files.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP")
MEMORY_BYTES = 1 << 30


class Urls(Protocol):
    """What a job needs of the store."""

    @property
    def archive_url(self) -> str: ...
    @property
    def meta_url(self) -> str: ...
    @property
    def store(self) -> Mapping[str, object]: ...


UrlsOf = Callable[[ArchiveKey], Urls]


def request_of(verb: str, op_id: OpId, key: ArchiveKey, urls: Urls, directory: str) -> bytes:
    """What the job reads; credentials are in it."""
    request = {
        "verb": verb,
        "op_id": str(op_id),
        "directory": directory,
        "archive_url": urls.archive_url,
        "meta_url": urls.meta_url,
        "archive_key": key,
        "store": dict(urls.store),
    }
    return json.dumps(request).encode()


def running(op_id: OpId, volume_uid: str, made_at: datetime, log: str) -> JobSeen:
    """A job with the last thing it said; `log` has the time before each line."""
    said_at, said = _last_words(log)
    return JobSeen(
        op_id=op_id,
        state=JobState.RUNNING,
        volume_uid=volume_uid,
        progress_at=said_at or made_at,
        bytes_done=_count(said.get("bytes_done")),
        files_done=_count(said.get("files_done")),
    )


def ended(job: JobSeen, exit_code: int | None, log: str, otherwise: str = "") -> JobSeen:
    """The same job once it has ended. `otherwise` is the message if it said nothing about it."""
    _, said = _last_words(log)
    if exit_code == 0 and said.get("state") == "done":
        marker = said.get("restore_marker")
        kept = ArchiveKey(marker) if isinstance(marker, str) else None
        return replace(job, state=JobState.SUCCEEDED, restore_marker=kept)
    silent = otherwise or f"The job ended with code {exit_code} and said nothing about it."
    return replace(
        job,
        state=JobState.FAILED,
        error=_ERRORS.get(exit_code or 0, ErrorReason.ACTION_FAILED),
        message=str(said.get("message") or silent),
    )


def _count(said: object) -> int:
    """A job that was taken over may say anything; the listing of all the others must not suffer."""
    return said if isinstance(said, int) else 0


def _last_words(log: str) -> tuple[datetime | None, Mapping[str, Any]]:
    """The last line that is a report, and when it was written."""
    for line in reversed(log.splitlines()):
        time, _, text = line.partition(" ")
        try:
            said = json.loads(text)
            at = datetime.fromisoformat(time)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and "state" in said:
            return at, said
    return None, {}
