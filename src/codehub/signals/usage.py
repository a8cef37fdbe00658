"""What workspaces use, left by the leader for whoever shows it. A hint: losing it costs a picture of the past.

codehub:usage:{workspace_id}        the newest measurement; it expires when the leader measures no more
codehub:usage:{workspace_id}:day    a line each few minutes, of the last day; it expires a day after the last one
codehub:usage:{workspace_id}:home   the size of its home when it was measured last; one at rest is measured once
codehub:archive_bytes:{key}         the size of an archive, from whoever asked last: what has a key does not change
"""

import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from codehub.model.workspace import ArchiveKey, WorkspaceId
from codehub.signals.connect import Redis, answering

KEY = "codehub:usage:"
ARCHIVE_KEY = "codehub:archive_bytes:"
_NEWEST_SECONDS = 120
_DAY_SECONDS = 24 * 3600
_HOME_SECONDS = 30 * 24 * 3600
_ARCHIVE_SECONDS = 24 * 3600
_UNTOLD_SECONDS = 60
MOST_POINTS = 288  # of a day, one each five minutes


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a workspace used at a moment, or in the minutes before it; None is not known."""

    at: datetime
    cpus: float | None
    memory_bytes: int | None
    ports: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class HomeSize:
    """What a home took on disk; None could not be measured in time."""

    at: datetime
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Usage:
    """What is known of one workspace; `day` has the oldest first."""

    newest: Measurement | None
    day: Sequence[Measurement]
    home: HomeSize | None = None


class RedisUsage:
    """The leader's side. One pipeline each, however many workspaces."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def leave(self, newest: Mapping[WorkspaceId, Measurement]) -> None:
        with answering():
            async with self._client.pipeline(transaction=False) as pipeline:
                for workspace_id, each in newest.items():
                    pipeline.set(f"{KEY}{workspace_id}", _stored(each), ex=_NEWEST_SECONDS)
                await pipeline.execute()

    async def add(self, points: Mapping[WorkspaceId, Measurement]) -> None:
        with answering():
            async with self._client.pipeline(transaction=False) as pipeline:
                for workspace_id, each in points.items():
                    key = f"{KEY}{workspace_id}:day"
                    pipeline.rpush(key, _stored(each))
                    pipeline.ltrim(key, -MOST_POINTS, -1)
                    pipeline.expire(key, _DAY_SECONDS)
                await pipeline.execute()

    async def leave_homes(self, sizes: Mapping[WorkspaceId, HomeSize]) -> None:
        with answering():
            async with self._client.pipeline(transaction=False) as pipeline:
                for workspace_id, each in sizes.items():
                    stored = json.dumps([round(each.at.timestamp(), 1), each.bytes])
                    pipeline.set(f"{KEY}{workspace_id}:home", stored, ex=_HOME_SECONDS)
                await pipeline.execute()


async def leave_archive_bytes(client: Redis, key: ArchiveKey, size: int | None) -> None:
    """None could not be told; that is remembered for a moment only."""
    with answering():
        if size is None:
            await client.set(f"{ARCHIVE_KEY}{key}", "", ex=_UNTOLD_SECONDS)
        else:
            await client.set(f"{ARCHIVE_KEY}{key}", size, ex=_ARCHIVE_SECONDS)


async def read_archive_bytes(client: Redis, key: ArchiveKey) -> tuple[bool, int | None]:
    """Whether somebody has asked lately, and what they were told."""
    with answering():
        found = cast("bytes | None", await client.get(f"{ARCHIVE_KEY}{key}"))
    return found is not None, int(found) if found is not None and found.isdigit() else None


async def read_usage(client: Redis, workspace_id: WorkspaceId) -> Usage:
    """Raises Unavailable when Redis does not answer."""
    with answering():
        newest = cast("bytes | None", await client.get(f"{KEY}{workspace_id}"))
        lines = await cast("Awaitable[list[bytes]]", client.lrange(f"{KEY}{workspace_id}:day", 0, -1))
        home = cast("bytes | None", await client.get(f"{KEY}{workspace_id}:home"))
    day = [point for point in map(_read, lines) if point is not None]
    return Usage(_read(newest), day, _read_home(home))


def _stored(each: Measurement) -> str:
    return json.dumps([round(each.at.timestamp(), 1), each.cpus, each.memory_bytes, each.ports])


def _read(stored: bytes | None) -> Measurement | None:
    """None of what is not of our making."""
    try:
        at, cpus, memory, ports = cast("list[Any]", json.loads(stored or b""))
        return Measurement(
            datetime.fromtimestamp(at, UTC),
            None if cpus is None else float(cpus),
            None if memory is None else int(memory),
            None if ports is None else tuple(map(int, ports)),
        )
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _read_home(stored: bytes | None) -> HomeSize | None:
    try:
        at, size = cast("list[Any]", json.loads(stored or b""))
        return HomeSize(datetime.fromtimestamp(at, UTC), None if size is None else int(size))
    except (ValueError, TypeError, OverflowError, OSError):
        return None
