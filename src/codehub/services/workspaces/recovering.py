"""Recovering from ERROR (SPEC section 8): a numbered answer to one error, honoured once by the controller."""

from datetime import datetime
from uuid import uuid4

from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool
from codehub.model import wishes
from codehub.model.workspace import Desired, RecoverFrom, RecoverRequest, WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import Verb, carry_out, wished
from codehub.services.workspaces.showing import Encoded
from codehub.services.workspaces.terms import Terms


async def recover(
    pool: Pool,
    terms: Terms,
    actor: Actor,
    identity: WorkspaceId,
    source: RecoverFrom,
    *,
    forced: bool = False,
    desired: Desired | None = None,
    safe_mode: bool | None = None,
) -> Encoded:
    """Ask for it; the next tick judges the workspace anew. `desired`: what is wanted of it from then on."""
    request = RecoverRequest(id=uuid4(), source=source, forced=forced)

    def decide(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        return wished(was, wishes.recover(was.workspace, request, desired, now, safe_mode), actor)

    details: dict[str, object] = {"from": source, "forced": forced}
    if desired is not None:
        details["desired_state"] = desired
    if safe_mode is not None:
        details["safe_mode"] = safe_mode
    verb = Verb("workspace.recover", decide, details)
    return await carry_out(pool, terms, actor, identity, verb)
