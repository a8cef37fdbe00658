"""Deleting, purging and undeleting (SPEC section 6)."""

from datetime import datetime

from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool
from codehub.model import wishes
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import Verb, carry_out, wished
from codehub.services.workspaces.showing import Encoded
from codehub.services.workspaces.terms import Terms


async def delete(
    pool: Pool,
    terms: Terms,
    actor: Actor,
    identity: WorkspaceId,
    *,
    purge: bool = False,
    confirmed: bool = False,
    if_match: str | None = None,
) -> Encoded:
    """To the trash, archived first where there is a home to archive; a purge keeps nothing.

    A home that cannot be archived is lost, which must be `confirmed`.
    """

    def decide(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        return wished(was, wishes.delete(was.workspace, now, purge=purge, confirmed=confirmed), actor)

    verb = Verb("workspace.purge" if purge else "workspace.delete", decide, {})
    return await carry_out(pool, terms, actor, identity, verb, if_match=if_match)


async def undelete(pool: Pool, terms: Terms, actor: Actor, identity: WorkspaceId) -> Encoded:
    """Take a deletion back; the workspace is archived then."""

    def decide(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        return wished(was, wishes.undelete(was.workspace, now, terms.retention), actor)

    return await carry_out(pool, terms, actor, identity, Verb("workspace.undelete", decide, {}))
