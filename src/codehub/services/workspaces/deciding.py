"""How every verb on a workspace is carried out: read, decide by the rules, write only over what was read.

A row that changed in between is read and decided on again, a few times; so a wish is never written over one that its
author has not seen, and never silently dropped: whoever asks gets it done, or a Conflict.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from codehub.db import clock, editing, listing
from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Connection, Pool, connection
from codehub.errors import Conflict, Gone, NotFound, Outdated, ServiceError
from codehub.model.wishes import Refusal, RefusedBecause, takes_a_place
from codehub.model.workspace import Wish, Workspace, WorkspaceId
from codehub.services import audit
from codehub.services.actors import Actor
from codehub.services.workspaces.admission import admit
from codehub.services.workspaces.showing import Encoded, encoded
from codehub.services.workspaces.terms import Terms

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Verb:
    """What is asked: `decide` makes the new row of the present one and the database's time, or raises why not.

    `action` and `details` are for the audit log.
    """

    action: str
    decide: Callable[[ShownWorkspace, datetime], ShownWorkspace]
    details: dict[str, object]


async def carry_out(
    pool: Pool, terms: Terms, actor: Actor, identity: WorkspaceId, verb: Verb, *, if_match: str | None = None
) -> Encoded:
    """Do it, with its audit entry, in one transaction. `if_match` is the ETag of what the caller has seen."""
    async with connection(pool) as conn:
        now = await clock.now(conn)
        for _ in range(_ATTEMPTS):
            was = await find(conn, actor, identity)
            _check_match(was, terms, if_match)
            new = verb.decide(was, now)
            if takes_a_place(was.workspace, new.workspace.wish):
                await admit(conn, was.workspace.owner_user_id, terms.quota, excluding=identity)
            written = was if new == was else await editing.write(conn, new)
            if written is not None:
                await audit.record(conn, actor, verb.action, identity, **verb.details, **on_behalf(actor, was))
                return encoded(written, terms.retention)
        raise Conflict("The workspace keeps changing.", "Try again in a moment.", code="busy")


async def find(conn: Connection, actor: Actor, identity: WorkspaceId) -> ShownWorkspace:
    """A workspace of the actor's, or anybody's for an administrator; what is not theirs is not there."""
    shown = await listing.by_id(conn, identity)
    if shown is None or not (actor.is_admin or shown.workspace.owner_user_id == actor.user_id):
        raise NotFound("There is no such workspace.", "Check its id; it may be somebody else's.")
    return shown


def on_behalf(actor: Actor, shown: ShownWorkspace) -> dict[str, object]:
    """For the audit log: whose workspace an administrator acts on."""
    return {} if shown.workspace.owner_user_id == actor.user_id else {"owner": shown.owner_username}


def wished(was: ShownWorkspace, wish: Wish | Refusal, actor: Actor) -> ShownWorkspace:
    """The row with this wish, asked for by the actor."""
    if isinstance(wish, Refusal):
        raise refused(wish, was.workspace)
    if wish != was.workspace.wish:
        wish = replace(wish, asked_by=actor.asked_by)
    return replace(was, workspace=replace(was.workspace, wish=wish))


def refused(refusal: Refusal, workspace: Workspace) -> ServiceError:
    kind = Gone if refusal.because is RefusedBecause.GONE else Conflict
    state = {
        "phase": workspace.status.phase,
        "operation": workspace.status.operation,
        "desired_state": workspace.wish.desired_state,
    }
    return kind(refusal.message, code=refusal.code, details=state)


def _check_match(was: ShownWorkspace, terms: Terms, if_match: str | None) -> None:
    if if_match is None or if_match.strip() == "*":
        return
    if encoded(was, terms.retention).etag not in [tag.strip() for tag in if_match.split(",")]:
        raise Outdated("The workspace has changed since you read it.", "Read it again, then repeat your change.")
