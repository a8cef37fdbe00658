"""How far a storage job has got, left by the leader for whoever shows it: `codehub:progress:{workspace_id}`.

It is shown only beside the operation it was left for (`op_id`), so an old one harms nothing; it expires by itself.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast
from uuid import UUID

import structlog

from codehub.errors import Unavailable
from codehub.model.workspace import Operation, OpId, WorkspaceId
from codehub.signals.connect import Redis, answering

log = structlog.get_logger(__name__)

KEY = "codehub:progress:"
EXPIRES_SECONDS = 900  # longer than any job may go without getting further


@dataclass(frozen=True, slots=True)
class Progress:
    """What a job has done of one operation so far."""

    op_id: OpId
    operation: Operation
    bytes: int
    files: int
    at: datetime


class RedisProgress:
    """The leader's side."""

    def __init__(self, client: Redis, *, expires_seconds: float = EXPIRES_SECONDS) -> None:
        self._client = client
        self._expires_ms = round(expires_seconds * 1000)

    async def leave(self, progress: Mapping[WorkspaceId, Progress]) -> None:
        """One pipeline, however many."""
        with answering():
            async with self._client.pipeline(transaction=False) as pipeline:
                for workspace_id, each in progress.items():
                    pipeline.set(f"{KEY}{workspace_id}", _stored(each), px=self._expires_ms)
                await pipeline.execute()


async def read_progress(client: Redis, ids: Collection[WorkspaceId]) -> Mapping[WorkspaceId, Progress]:
    """What was left for these, in one question; nothing when Redis is away."""
    asked = list(ids)
    if not asked:
        return {}
    try:
        with answering():
            answer = await client.mget([f"{KEY}{each}" for each in asked])
    except Unavailable:
        return {}
    found = zip(asked, map(_read, cast("Sequence[bytes | None]", answer)), strict=True)
    return {workspace_id: progress for workspace_id, progress in found if progress is not None}


def _stored(progress: Progress) -> str:
    return json.dumps(
        {
            "op_id": str(progress.op_id),
            "operation": progress.operation,
            "bytes": progress.bytes,
            "files": progress.files,
            "at": progress.at.isoformat(),
        }
    )


def _read(stored: bytes | None) -> Progress | None:
    if stored is None:
        return None
    try:
        value = json.loads(stored)
        return Progress(
            OpId(UUID(value["op_id"])),
            Operation(value["operation"]),
            int(value["bytes"]),
            int(value["files"]),
            datetime.fromisoformat(value["at"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("not a job's progress", example=repr(stored[:80]))
        return None
