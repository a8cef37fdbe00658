"""What a waiting page shows, and the events that keep it up to date until the workspace is ready.

While somebody waits here, the workspace is woken as soon as nothing else goes on with it. All who wait for the same
workspace share one look at it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from codehub.db.listing import ShownWorkspace
from codehub.errors import CodeHubError, Unavailable
from codehub.model.visiting import Step
from codehub.model.workspace import Operation, UserId, WorkspaceId
from codehub.services import sessions, visits
from codehub.services.actors import Actor
from codehub.signals.progress import read_progress
from codehub.web.context import Context
from codehub.web.stream import HEARTBEAT, event
from codehub.web.visit.pages import Voice, Waiting
from codehub.web.visit.waking import look_and_wake

_LOOK_SECONDS = 0.7
_SHARED_SECONDS = 0.6  # of a look: less than between two of them, so that somebody who waits alone sees each
_USUAL_SECONDS = 5.0  # how long it usually takes does not change much
_LOOKS_BETWEEN_CHECKS = 5  # of whether the login still holds
_LONGEST_SECONDS = 600  # then the page asks again


async def waiting_of(context: Context, shown: ShownWorkspace) -> Waiting:
    status = shown.workspace.status
    workspace, operation = shown.workspace.id, status.operation
    usual = None if operation is Operation.NONE else await _usual(context, workspace, operation)
    done = (await read_progress(context.redis, [workspace])).get(workspace) if _moves(operation) else None
    moved = done.bytes if done is not None and done.op_id == status.op_id else None
    since = status.op_started_at if operation is not Operation.NONE else None
    elapsed = max(0, round((datetime.now(UTC) - since).total_seconds())) if since is not None else 0
    return Waiting(operation.value, elapsed, None if usual is None else max(1, round(usual)), moved)


async def events(context: Context, actor: Actor, workspace: WorkspaceId, voice: Voice) -> AsyncIterator[bytes]:
    """Until it is ready, or needs a person: then `go`, and the page asks what there is now."""
    last, looks = b"", 0
    until = asyncio.get_running_loop().time() + _LONGEST_SECONDS
    yield b"retry: 1000\n\n"
    while asyncio.get_running_loop().time() < until:
        try:
            if looks % _LOOKS_BETWEEN_CHECKS == 0 and not await _holds(context, actor):
                break
            owner, state = await _look(context, actor, workspace)
            if state is None or not (actor.is_admin or actor.user_id == owner):
                break
            told = event("progress", json.dumps(state.as_dict(voice)).encode())
            if told != last:
                yield told
                last = told
            elif looks % 20 == 0:
                yield HEARTBEAT
        except Unavailable:
            yield HEARTBEAT  # what is away may come back
        except CodeHubError:  # over the limit, or gone: the page says which
            break
        looks += 1
        await asyncio.sleep(_LOOK_SECONDS)
    yield event("go", b"{}")


async def _look(context: Context, actor: Actor, workspace: WorkspaceId) -> tuple[UserId, Waiting | None]:
    """Whose it is, and what goes on; None when there is nothing to wait for any more."""

    async def read() -> tuple[UserId, Waiting | None]:
        found = await look_and_wake(context, actor, workspace)
        state = await waiting_of(context, found.shown) if found.step is Step.WAIT else None
        return found.shown.workspace.owner_user_id, state

    return await context.shared.get(("look", workspace), _SHARED_SECONDS, read)


async def _usual(context: Context, workspace: WorkspaceId, operation: Operation) -> float | None:
    return await context.shared.get(
        ("usual", workspace, operation),
        _USUAL_SECONDS,
        lambda: visits.usual_seconds(context.pool, workspace, operation),
    )


def _moves(operation: Operation) -> bool:
    return operation in (Operation.RESTORING, Operation.ARCHIVING)


async def _holds(context: Context, actor: Actor) -> bool:
    return await sessions.is_alive(context.pool, context.settings.accounts, actor)
