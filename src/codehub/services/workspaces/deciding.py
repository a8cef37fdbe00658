"""How every verb on a workspace is carried out: read, decide by the rules, write only over what was read.

A row that changed in between is held, read and decided on again; so a wish is never written over one that its author
has not seen, and never silently dropped: whoever asks gets it done, or hears why not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from codehub.db import editing, listing
from codehub.db.limits import hold_limits, running_of
from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Connection, Pool
from codehub.db.sharing import write_shared
from codehub.errors import Conflict, Gone, NotFound, Outdated, ServiceError
from codehub.model.wishes import Refusal, RefusedBecause, takes_a_place
from codehub.model.workspace import Wish, Workspace, WorkspaceId
from codehub.services import audit
from codehub.services.actors import Actor
from codehub.services.workspaces.admission import Places, over_limit
from codehub.services.workspaces.showing import Encoded, encoded
from codehub.services.workspaces.terms import Terms


@dataclass(frozen=True, slots=True)
class Verb:
    """What is asked: `decide` makes the new row of the present one and the database's time, or raises why not.

    `action` and `details` are for the audit log.
    """

    action: str
    decide: Callable[[ShownWorkspace, datetime], ShownWorkspace]
    details: dict[str, object]


@dataclass(frozen=True, slots=True)
class _Wanted:
    terms: Terms
    actor: Actor
    identity: WorkspaceId
    verb: Verb
    if_match: str | None


async def carry_out(
    pool: Pool, terms: Terms, actor: Actor, identity: WorkspaceId, verb: Verb, *, if_match: str | None = None
) -> Encoded:
    """Do it, with its audit entry, in one transaction. `if_match` is the ETag of what the caller has seen.

    Many at once share a transaction (db/sharing.py): each by itself would wait for the limits' lock, one commit long.
    """
    return await write_shared(pool, _carry_out, _Wanted(terms, actor, identity, verb, if_match))


async def _carry_out(conn: Connection, asked: Sequence[_Wanted]) -> Sequence[Encoded | ServiceError]:
    """In as few round trips as one, each as if it were alone: it is written only after nothing speaks against it.

    One alone holds nothing while it is decided on. Many hold the limits and then all their rows, as one does whose row
    has changed meanwhile: the limits before any row, rows in the order of their ids, so that no two can deadlock.
    """
    if len(asked) == 1:
        outcomes = await _carry_out_once(conn, {0: asked[0]})
        if outcomes:
            return [outcomes[0]]
        await conn.rollback()  # the row that was not written may be held all the same
    async with conn.pipeline():
        await hold_limits(conn)
        await editing.hold(conn, {wanted.identity for wanted in asked})
    outcomes = {}
    while len(outcomes) < len(asked):
        todo: dict[WorkspaceId, int] = {}  # the first that is asked of each; what else is asked of it comes after that
        for number, wanted in enumerate(asked):
            if number not in outcomes:
                todo.setdefault(wanted.identity, number)
        done = await _carry_out_once(conn, {number: asked[number] for number in todo.values()})
        assert len(done) == len(todo), "a row that was held has changed"
        outcomes |= done
    return [outcomes[number] for number in range(len(asked))]


async def _carry_out_once(conn: Connection, asked: Mapping[int, _Wanted]) -> dict[int, Encoded | ServiceError]:
    """Of different workspaces. One without an outcome is to be decided on again: its row, not held, has changed."""
    outcomes: dict[int, Encoded | ServiceError] = {}
    now, rows = await listing.by_ids_now(conn, [wanted.identity for wanted in asked.values()])
    decided: dict[int, tuple[ShownWorkspace, ShownWorkspace]] = {}
    for number, wanted in asked.items():
        try:
            was = _theirs(wanted.actor, rows.get(wanted.identity))
            _check_match(was, wanted.terms, wanted.if_match)
            # A microsecond apart: who asked first is served first, also of those who share a transaction.
            decided[number] = was, wanted.verb.decide(was, now + timedelta(microseconds=number))
        except ServiceError as refusal:
            outcomes[number] = refusal
    over = await _refused_places(conn, asked, decided)
    changed = [new for number, (was, new) in decided.items() if number not in over and new != was]
    written = await editing.write(conn, changed) if changed else {}
    running = await running_of(conn, {decided[number][0].workspace.owner_user_id for number in over}) if over else {}
    entries = []
    for number, (was, new) in decided.items():
        wanted = asked[number]
        shown = was if new == was else written.get(wanted.identity)
        if number in over:
            outcomes[number] = over_limit(over[number], running[was.workspace.owner_user_id])
        elif shown is not None:
            details = {**wanted.verb.details, **on_behalf(wanted.actor, was)}
            entries.append(audit.entry_of(wanted.actor, wanted.verb.action, wanted.identity, **details))
            outcomes[number] = encoded(shown, wanted.terms.retention)
    if entries:
        await audit.record_all(conn, entries)
    return outcomes


async def _refused_places(
    conn: Connection, asked: Mapping[int, _Wanted], decided: Mapping[int, tuple[ShownWorkspace, ShownWorkspace]]
) -> dict[int, str]:
    """Those that take a place which is not there, and why it is not."""
    takers = {
        number: was.workspace.owner_user_id
        for number, (was, new) in decided.items()
        if takes_a_place(was.workspace, new.workspace.wish)
    }
    if not takers:
        return {}
    places = await Places.held(conn, takers.values(), [asked[number].identity for number in takers])
    refused = {
        number: places.take(owner, asked[number].identity, asked[number].terms.quota)
        for number, owner in takers.items()
    }
    return {number: why for number, why in refused.items() if why is not None}


async def find(conn: Connection, actor: Actor, identity: WorkspaceId) -> ShownWorkspace:
    """A workspace of the actor's, or anybody's for an administrator; what is not theirs is not there."""
    return _theirs(actor, await listing.by_id(conn, identity))


def _theirs(actor: Actor, shown: ShownWorkspace | None) -> ShownWorkspace:
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
