"""What a workspace uses, as the leader measured it last, beside what it may use; and what its archive takes."""

from dataclasses import dataclass

from codehub.db import clock
from codehub.db.pool import Pool, connection
from codehub.errors import CodeHubError, OverLimit
from codehub.model import wishes
from codehub.model.workspace import ArchiveKey, VolumeState, WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import find
from codehub.services.workspaces.terms import Terms
from codehub.signals.connect import Redis
from codehub.signals.questions import ask
from codehub.signals.usage import HomeSize, Usage, leave_archive_bytes, read_archive_bytes, read_usage

_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Used:
    """None is not known, or not there."""

    usage: Usage
    home: HomeSize | None
    archive_bytes: int | None


async def usage_of(pool: Pool, redis: Redis, terms: Terms, actor: Actor, identity: WorkspaceId) -> Used:
    """Numbers only, so an administrator's look at somebody else's is not audited."""
    async with connection(pool) as conn:
        workspace = (await find(conn, actor, identity)).workspace
        now = await clock.now(conn)
    status = workspace.status
    usage = await read_usage(redis, identity)
    home = usage.home if status.home_ctx.volume is VolumeState.LIVE else None
    key = wishes.archive_to_copy(workspace, now, terms.retention)
    archive = await _archive_bytes(redis, actor, key) if isinstance(key, str) else None
    return Used(usage, home, archive)


async def _archive_bytes(redis: Redis, actor: Actor, key: ArchiveKey) -> int | None:
    """Asked of the store only when somebody looks and nobody has for a day; for a minute, where it did not tell."""
    was_asked, size = await read_archive_bytes(redis, key)
    if was_asked:
        return size
    try:
        answer = await ask(redis, "archive", {"key": key}, _ANSWER_SECONDS, asker=f"{actor.user_id} looks")
        size = int(answer["size"])
    except OverLimit:  # nobody was asked
        return None
    except (CodeHubError, KeyError, TypeError, ValueError):
        size = None
    await leave_archive_bytes(redis, key, size)
    return size
