"""What the leader answers of archives: only whoever has the store's credentials can list and read them.

    archives      {workspace_id}            [{key, at, size}], the newest first; complete ones alone
    archive       {key}                     {size, sha256, mark}, or {missing: why}
    archive_part  {key, file, start, size}  the bytes from `start` on, in base64, or {missing: why}

A part is at most PART_BYTES. A store that is out is an error, which may pass.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from uuid import UUID

from codehub.drivers.base import ArchiveFile, Archives
from codehub.errors import DriverError, InvalidName, Unavailable, Unreachable
from codehub.model.names import parse_archive_key
from codehub.model.workspace import ArchiveKey, WorkspaceId
from codehub.signals.questions import Body, Handler

PART_BYTES = 512 << 10  # an answer is at most a megabyte
_MOST_LISTED = 200

T = TypeVar("T")


def archive_answers(archives: Archives) -> Mapping[str, Handler]:
    """By the kind of the question."""

    async def listed(body: Body) -> object:
        workspace_id = _understood(lambda: WorkspaceId(UUID(body["workspace_id"])))
        found = [each async for page in archives.found(workspace_id) for each in page if each.complete]
        found.sort(key=lambda each: each.modified_at, reverse=True)
        return [
            {"key": each.key, "at": each.modified_at.isoformat(), "size": each.size} for each in found[:_MOST_LISTED]
        ]

    async def described(body: Body) -> object:
        key = _understood(lambda: _key(body["key"]))
        file = await _whole(archives.describe(key))
        if isinstance(file, str):
            return {"missing": file}
        return {"size": file.size, "sha256": file.sha256, "mark": file.mark}

    async def part(body: Body) -> object:
        key = _understood(lambda: _key(body["key"]))
        file = _understood(lambda: ArchiveFile(**body["file"]))
        start, size = _understood(lambda: (int(body["start"]), min(int(body["size"]), PART_BYTES)))
        data = await _whole(archives.part(key, file, start, size))
        return {"missing": data} if isinstance(data, str) else base64.b64encode(data).decode()

    return {"archives": listed, "archive": described, "archive_part": part}


async def _whole(looking: Awaitable[T]) -> T | str:
    """What was asked for, or why the archive is not whole."""
    try:
        return await looking
    except Unreachable:
        raise
    except DriverError as error:
        return str(error)


def _key(text: str) -> ArchiveKey:
    parse_archive_key(text)
    return ArchiveKey(text)


def _understood(read: Callable[[], T]) -> T:
    try:
        return read()
    except (KeyError, ValueError, TypeError, AttributeError, InvalidName) as error:
        raise Unavailable("The coordinator does not understand this question.") from error
