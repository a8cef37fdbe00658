"""A workspace's archives: which there are, and their bytes for whoever may have them.

Only the leader can reach the store, so it is asked for a part after the other, no faster than they are taken. A part
that does not come is asked for again for a while: a new leader, a store that was out for a moment.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime

from codehub.db import clock
from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool, connection
from codehub.errors import CodeHubError, NotFound, OverLimit, Unavailable
from codehub.model import wishes
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.wishes import Refusal
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId
from codehub.services import audit
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import find, on_behalf, refused
from codehub.services.workspaces.terms import Terms
from codehub.signals.connect import Redis
from codehub.signals.questions import ask

PART_BYTES = 512 << 10
_ANSWER_SECONDS = 15.0
_PART_SECONDS = 60.0  # for one part, however often it is asked for
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class Archive:
    """One that the store has."""

    op_id: OpId
    at: datetime
    size: int
    is_current: bool  # what the workspace goes back to by itself


@dataclass(frozen=True, slots=True)
class _File:
    """As the leader describes it (coordinator/archive_answers.py)."""

    size: int
    sha256: str
    mark: str


@dataclass(frozen=True, slots=True)
class Download:
    """An archive to be sent."""

    name: str  # the workspace's
    size: int
    sha256: str
    parts: AsyncIterator[bytes]


async def archives_of(pool: Pool, redis: Redis, terms: Terms, actor: Actor, identity: WorkspaceId) -> list[Archive]:
    """What the store has of it, the newest first."""
    shown, now = await _found(pool, actor, identity)
    status = shown.workspace.status
    was_never_archived = status.archive_key is None and status.op_id is None
    if was_never_archived or wishes.archives_gone(shown.workspace, now, terms.retention) is not None:
        return []
    question = {"workspace_id": str(identity)}
    answer = await ask(redis, "archives", question, _ANSWER_SECONDS, asker=f"{actor.user_id} lists")
    try:
        return [
            Archive(
                parse_archive_key(each["key"]).op_id,
                datetime.fromisoformat(each["at"]),
                int(each["size"]),
                each["key"] == status.archive_key,
            )
            for each in answer
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood() from error


async def download(
    pool: Pool, redis: Redis, terms: Terms, actor: Actor, identity: WorkspaceId, *, op_id: OpId | None = None
) -> Download:
    """The last archive, or the one of that operation. No connection is held while it is sent."""
    shown, now = await _found(pool, actor, identity)
    key = _key_of(shown, now, terms, op_id)
    answer = await ask(redis, "archive", {"key": key}, _ANSWER_SECONDS, asker=f"{actor.user_id} downloads")
    if isinstance(answer, dict) and "missing" in answer:
        raise NotFound("That archive is not in the archive store, or it is damaged.", "GET …/archives lists them.")
    try:
        file = _File(int(answer["size"]), str(answer["sha256"]), str(answer["mark"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood() from error
    async with connection(pool) as conn:
        await audit.record(conn, actor, "workspace.download", identity, archive=key, **on_behalf(actor, shown))
    return Download(shown.name, file.size, file.sha256, _parts(redis, f"{actor.user_id} downloads", key, file))


async def _found(pool: Pool, actor: Actor, identity: WorkspaceId) -> tuple[ShownWorkspace, datetime]:
    async with connection(pool) as conn:
        return await find(conn, actor, identity), await clock.now(conn)


def _key_of(shown: ShownWorkspace, now: datetime, terms: Terms, op_id: OpId | None) -> ArchiveKey:
    workspace = shown.workspace
    if op_id is None:
        found = wishes.archive_to_copy(workspace, now, terms.retention)
    else:
        found = wishes.archives_gone(workspace, now, terms.retention) or archive_key(workspace.id, op_id)
    if isinstance(found, Refusal):
        raise refused(found, workspace)
    return found


async def _parts(redis: Redis, asker: str, key: ArchiveKey, file: _File) -> AsyncIterator[bytes]:
    """A part is in memory only until it is taken."""
    for start in range(0, file.size, PART_BYTES):
        size = min(PART_BYTES, file.size - start)
        yield await _part(redis, asker, {"key": key, "file": asdict(file), "start": start, "size": size}, size)


async def _part(redis: Redis, asker: str, question: dict[str, object], size: int) -> bytes:
    now = asyncio.get_running_loop().time
    until, pause = now() + _PART_SECONDS, _FIRST_PAUSE
    while True:
        try:
            answer = await ask(redis, "archive_part", question, _ANSWER_SECONDS, asker=asker)
        except (Unavailable, OverLimit):
            if now() >= until:
                raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            continue
        if isinstance(answer, dict):
            raise Unavailable("The archive went away while it was sent.")
        data = base64.b64decode(answer)
        if len(data) != size:
            raise _not_understood()
        return data


def _not_understood() -> CodeHubError:
    return Unavailable("The coordinator's answer was not understood.", "It may be of another version.")
