"""What a workspace has written. Of one that runs only the leader can see it, so it is asked, with a time limit; of one
that has ended, or could not start, its last lines are kept for a day (signals/last_logs.py).
"""

from dataclasses import dataclass

from codehub.db.pool import Pool, connection
from codehub.errors import Conflict, Unavailable
from codehub.model.workspace import Phase, WorkspaceId
from codehub.services import audit
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import find, on_behalf
from codehub.signals.connect import Redis
from codehub.signals.last_logs import RedisLastLogs
from codehub.signals.questions import ask

_ANSWER_SECONDS = 10.0
_NO_INSTANCE = (Phase.PENDING, Phase.ARCHIVED, Phase.STANDBY, Phase.DELETING, Phase.DELETED)


@dataclass(frozen=True, slots=True)
class Lines:
    """The newest lines; `cut` when some that were asked for had to go."""

    text: str
    cut: bool


async def newest(pool: Pool, redis: Redis, actor: Actor, identity: WorkspaceId, lines: int) -> Lines:
    """An administrator who reads somebody else's leaves a line in the audit log."""
    async with connection(pool) as conn:
        shown = await find(conn, actor, identity)
        others = on_behalf(actor, shown)
        if others:
            await audit.record(conn, actor, "workspace.logs", identity, **others)
    workspace = shown.workspace
    last = RedisLastLogs(redis)
    if workspace.status.phase in _NO_INSTANCE and not workspace.status.conditions.container_ready.status:
        if text := await last.read(identity):
            return _last(text, lines)
        raise Conflict("The workspace is not running, so it writes nothing.", "Start it first.", code="not_running")
    question = {"workspace_id": str(identity), "backend": workspace.instance_backend.value, "lines": lines}
    try:
        answer = await ask(redis, "logs", question, _ANSWER_SECONDS, asker=str(actor.user_id))
    except Unavailable:
        # Whoever asks about an error wants to know what was before it, with or without a leader.
        if workspace.status.phase is Phase.ERROR and (text := await last.read(identity)):
            return _last(text, lines)
        raise
    try:
        found = Lines(str(answer["text"]), bool(answer["cut"]))
    except (KeyError, TypeError) as error:
        raise Unavailable("The coordinator's answer was not understood.", "It may be of another version.") from error
    return found if found.text else _last(await last.read(identity), lines)


def _last(text: str, lines: int) -> Lines:
    kept = text.splitlines(keepends=True)
    return Lines("".join(kept[-lines:]), len(kept) > lines)
