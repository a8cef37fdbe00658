"""A workspace's archives: which there are, and their bytes for whoever may have them.

Only the leader can reach the store, so it is asked for a part after the other, no faster than they are taken. A part
that does not come is asked for again for a while: a new leader, a store that was out for a moment.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import uuid4

from codehub.db import clock
from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool, connection
from codehub.errors import CodeHubError, Gone, NotFound, Unavailable
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
    """The last archive, or the one of that operation. No connection is held while it is sent.

    How many there are at once is for the caller to limit."""
    shown, now = await _found(pool, actor, identity)
    key = _key_of(shown, now, terms, op_id)
    asker = f"{actor.user_id} downloads {uuid4().hex}"  # so that several of one user do not starve each other
    file = await _described(redis, asker, key)
    async with connection(pool) as conn:
        await audit.record(conn, actor, "workspace.download", identity, archive=key, **on_behalf(actor, shown))
    return Download(shown.name, file.size, file.sha256, _parts(redis, asker, key, file))


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


async def _described(redis: Redis, asker: str, key: ArchiveKey) -> _File:
    answer = await ask(redis, "archive", {"key": key}, _ANSWER_SECONDS, asker=asker)
    if isinstance(answer, dict) and "missing" in answer:
        raise NotFound("That archive is not in the archive store, or it is damaged.", "GET …/archives lists them.")
    try:
        return _File(int(answer["size"]), str(answer["sha256"]), str(answer["mark"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood() from error


async def _parts(redis: Redis, asker: str, key: ArchiveKey, file: _File) -> AsyncIterator[bytes]:
    """A part is in memory only until it is taken."""
    at, now = 0, asyncio.get_running_loop().time
    until, pause = now() + _PART_SECONDS, _FIRST_PAUSE
    while at < file.size:
        question = {"key": key, "file": asdict(file), "start": at, "size": min(PART_BYTES, file.size - at)}
        try:
            data = _part(await ask(redis, "archive_part", question, _ANSWER_SECONDS, asker=asker))
        except Unavailable:
            if now() >= until:
                raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            with suppress(Unavailable):
                file = _still(file, await _described(redis, asker, key))
            continue
        yield data
        at += len(data)
        until, pause = now() + _PART_SECONDS, _FIRST_PAUSE


def _part(answer: object) -> bytes:
    data = base64.b64decode(answer) if isinstance(answer, str) else b""
    if not data:
        raise Unavailable("The archive store did not have that part of the archive.")
    return data


def _still(file: _File, now: _File) -> _File:
    """The same archive with its present mark: a restore, for example, may touch the file and leave what it holds."""
    if (now.size, now.sha256) != (file.size, file.sha256):
        raise Gone("The archive was replaced while it was sent.")
    return now


def _not_understood() -> CodeHubError:
    return Unavailable("The coordinator's answer was not understood.", "It may be of another version.")
