"""Waking a workspace for somebody who wants to enter it: for as long as they wait, then they are shown a page.

An operation in progress is waited for; then the workspace is started. That is asked for again, with growing pauses,
for as long as it is refused because something else goes on.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from codehub.db.listing import ShownWorkspace
from codehub.errors import Conflict
from codehub.model.visiting import Step, step_of
from codehub.model.workspace import Desired, WorkspaceId
from codehub.services import visits
from codehub.services.actors import Actor
from codehub.services.workspaces import changing
from codehub.services.workspaces.terms import Terms
from codehub.web.context import Context

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """The workspace as it was last seen, and what a visit to it comes to."""

    shown: ShownWorkspace
    step: Step
    has_waited: bool


async def found_awake(context: Context, actor: Actor, workspace: WorkspaceId, hold_seconds: float) -> Found:
    """Once it runs, or needs a person, or the time is over. Raises OverLimit when it may not start."""
    now = asyncio.get_running_loop().time
    until = now() + hold_seconds
    pause, has_waited = _FIRST_PAUSE, False
    while True:
        found = await look_and_wake(context, actor, workspace)
        if found.step is not Step.WAIT or now() >= until:
            return Found(found.shown, found.step, has_waited)
        await asyncio.sleep(min(pause, max(0.0, until - now())))
        pause, has_waited = min(pause * 1.5, _LONGEST_PAUSE), True


async def look_and_wake(context: Context, actor: Actor, workspace: WorkspaceId) -> Found:
    """One look; what stands by is asked to start. Never ends in WAKE."""
    shown = await visits.found(context.pool, actor, workspace)
    step = step_of(shown.workspace)
    if step is Step.WAKE:
        step = Step.WAIT
        terms = Terms.of(context.settings, context.images, context.default_backend)
        with contextlib.suppress(Conflict):  # something else has just begun: its end is waited for
            await changing.request_state(context.pool, terms, actor, workspace, Desired.RUNNING)
    return Found(shown, step, has_waited=False)
