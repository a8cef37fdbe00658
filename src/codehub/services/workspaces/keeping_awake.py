"""The keep-awake lease: until it ends, being idle does not stop the workspace."""

from dataclasses import replace
from datetime import datetime, timedelta

from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool
from codehub.errors import Invalid
from codehub.model import wishes
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import Verb, carry_out, refused
from codehub.services.workspaces.showing import Encoded
from codehub.services.workspaces.terms import Terms


async def keep_awake(pool: Pool, terms: Terms, actor: Actor, identity: WorkspaceId, lasting: timedelta) -> Encoded:
    """For this long from now; no time at all ends the lease."""
    if not timedelta(0) <= lasting <= wishes.LONGEST_AWAKE:
        raise Invalid("hours: a workspace is kept awake for at most 24 hours.", "Use a number from 0 to 24.")

    def decide(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        wish = wishes.keep_awake(was.workspace, now, lasting)
        if isinstance(wish, wishes.Refusal):
            raise refused(wish, was.workspace)
        return replace(was, workspace=replace(was.workspace, wish=wish))  # nobody asked for another state

    verb = Verb("workspace.keep_awake", decide, {"seconds": round(lasting.total_seconds())})
    return await carry_out(pool, terms, actor, identity, verb)
