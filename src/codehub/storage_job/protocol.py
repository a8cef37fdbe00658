"""What the job is asked and what it answers. This is the whole interface: nothing else of the job is promised.

**Request**: one JSON object on standard input, then end of file, within 30 seconds. Credentials are nowhere else.

    verb         "archive", "restore" or "empty" (put the archive of an empty home there)
    op_id        the operation; a restore leaves it on the volume when all is there
    directory    the volume's root, mounted already (archive, restore)
    archive_url  file:///…/home.tar.zst or s3://bucket/…/home.tar.zst, in full; the job builds no names
    meta_url     the same for home.tar.zst.meta, in the same store
    archive_key  echoed as restore_marker by a restore that succeeded
    store        for s3: endpoint, access_key_id, secret_access_key, session_token, region, allow_http,
                 virtual_hosted_style_request (then the endpoint's host begins with the bucket), root_certificate (PEM:
                 an authority to trust besides the system's), timeout_seconds (of one request), retry_seconds
    limits       {"bytes": n, "files": n}: an archive that unpacks to more is refused; null or absent is no limit
    marker_path  optional, outside the home: where a restore notes its op_id on file systems without user.* attributes
    result_path  optional: a file that is replaced whenever the last line of standard output changes
    result_owner optional: numeric uid that gets the result file

**Answer**: the exit code below, and JSON lines on standard output, a progress line a second while something moves, the
result last. All have "state" ("running", "done", "failed"), "op_id", "bytes_done" and "files_done" (of the home, not of
the archive), "bytes_moved" (of the archive, to or from the store; sent again it counts again). "done" adds
"skipped" (it was done already), "archive" {"sha256", "size"}, "left_out" (sockets, devices and mount points
that an archive does not keep), "dropped" (extended attributes that the volume would not take) and, for
a restore, "restore_marker". "failed" adds "code", "reason" and "message" for people. The result file changes only when
something moved, so its time is the time of the last progress. Killed jobs leave "running" in it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from threading import Lock
from typing import Any, Literal, get_args

Verb = Literal["archive", "restore", "empty"]
REQUEST_SECONDS = 30.0
REQUEST_BYTES = 1 << 20


class Exit(IntEnum):
    """Exit codes. Any other (a signal, 1, 137) means that the job died: run it again."""

    DONE = 0
    BAD_REQUEST = 2  # whoever asked made a mistake; nothing was touched
    RETRY = 10  # it failed this time: ActionFailed
    UNREACHABLE = 11  # the store could not be reached, or refused us: an outage
    CORRUPTED = 20  # the archive is damaged, incomplete or hostile: ArchiveCorrupted
    UNARCHIVABLE = 21  # something in the home can never be read as it is: ActionFailed, whose message names it


REASONS = {
    Exit.BAD_REQUEST: "BadRequest",
    Exit.RETRY: "ActionFailed",
    Exit.UNREACHABLE: "Unreachable",
    Exit.CORRUPTED: "ArchiveCorrupted",
    Exit.UNARCHIVABLE: "ActionFailed",
}


class JobFailed(Exception):
    """The job ends with this code; the message is for people."""

    code = Exit.RETRY


class BadRequest(JobFailed):
    """The request makes no sense."""

    code = Exit.BAD_REQUEST


class TryAgain(JobFailed):
    """It may work next time."""


class StoreUnreachable(JobFailed):
    """The archive store is out, or does not let us in."""

    code = Exit.UNREACHABLE


class Corrupted(JobFailed):
    """The archive must not be trusted; nothing outside the volume was touched."""

    code = Exit.CORRUPTED


class Unarchivable(JobFailed):
    """The home holds something that no retry can read."""

    code = Exit.UNARCHIVABLE


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may unpack to."""

    bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, checked."""

    verb: Verb
    op_id: str
    archive_url: str
    meta_url: str
    directory: str = ""
    archive_key: str = ""
    store: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limits: Limits = Limits()
    marker_path: str | None = None
    result_path: str | None = None
    result_owner: int | None = None


def parse_request(text: bytes) -> Request:
    try:
        given = json.loads(text)
        request = Request(**{**given, "limits": Limits(**(given.get("limits") or {}))})
    except (ValueError, TypeError, AttributeError):
        # Not chained: the document holds credentials, and a traceback would quote it.
        raise BadRequest("standard input holds no request that this version knows") from None
    texts: list[Any] = [request.op_id, request.archive_url, request.meta_url]
    if request.verb not in get_args(Verb) or not all(isinstance(text, str) and text for text in texts):
        raise BadRequest("verb, op_id, archive_url and meta_url are needed")
    directory: Any = request.directory
    if request.verb != "empty" and not (isinstance(directory, str) and directory.startswith("/")):
        raise BadRequest("directory must be an absolute path")
    return request


@dataclass(slots=True)
class Outcome:
    """What a verb reports when it is done."""

    skipped: bool = False
    sha256: str = ""
    size: int = 0
    left_out: int = 0
    dropped: int = 0
    restore_marker: str | None = None

    def fields(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "skipped": self.skipped,
            "archive": {"sha256": self.sha256, "size": self.size},
            "left_out": self.left_out,
            "dropped": self.dropped,
        }
        return content if self.restore_marker is None else {**content, "restore_marker": self.restore_marker}


@dataclass(slots=True)
class Tally:
    """How far it got; written by whoever works, read by the reporter."""

    bytes_done: int = 0
    files_done: int = 0
    bytes_moved: int = 0
    _lock: Lock = field(default_factory=Lock)

    def moved(self, size: int) -> None:
        """More of the archive went to the store or came from it; parts on their way say so at the same time."""
        with self._lock:
            self.bytes_moved += size

    def begin(self) -> None:
        """A new try: what was read of the home is read again; what was moved was moved."""
        self.bytes_done = self.files_done = 0
