"""What administrators see and ask for: /admin/*."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from codehub.db.audit_pages import AuditFilter
from codehub.db.audit_pages import AuditLine as AuditRow
from codehub.db.gc_runs import GcPlace
from codehub.db.gc_runs import GcRun as GcRow
from codehub.db.listing import Filter
from codehub.errors import Invalid
from codehub.model.workspace import UserId
from codehub.services import administering
from codehub.web.api import schemas
from codehub.web.api.answers import errors
from codehub.web.api.cursors import cursor_of, place_of
from codehub.web.api.workspaces import Cursor, Deleted, Limit, Phases, Text, page_answer, place
from codehub.web.auth import AdminActor
from codehub.web.context import InContext

router = APIRouter(prefix="/admin", tags=["administration"])


@router.get("/workspaces", response_model=schemas.Workspaces)
async def list_everybodys_workspaces(
    _actor: AdminActor,
    context: InContext,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    phase: Phases = None,
    q: Text = None,
    deleted: Deleted = False,
    owner: Annotated[UUID | None, Query(description="Only this user's.")] = None,
) -> Response:
    """Everybody's workspaces, newest first."""
    whose = None if owner is None else UserId(owner)
    asked = Filter(owner=whose, phases=tuple(phase or ()), text=q or "", deleted=deleted)
    found = await context.shelf.page(asked, after=place(cursor), limit=limit)
    return await page_answer(context, found)


@router.get("/limits")
async def limits(actor: AdminActor, context: InContext) -> schemas.Limits:
    """How many workspaces run, in all and by user, and how many may."""
    found = await administering.limits_in_use(context.pool, context.terms.quota, actor)
    return schemas.Limits(
        total=schemas.QuotaInUse(running=found.total, limit=found.quota.total),
        per_user_limit=found.quota.per_user,
        users=[
            schemas.UserInUse(user=schemas.Person(id=each.user_id, username=each.username), running=each.running)
            for each in found.users
        ],
    )


@router.get("/audit")
async def audit_log(
    actor: AdminActor,
    context: InContext,
    *,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the page before.")
    ] = None,
    user: Annotated[UUID | None, Query(description="Only what this user did.")] = None,
    workspace: Annotated[UUID | None, Query(description="Only what was done to this workspace.")] = None,
    action: Annotated[
        str | None, Query(pattern=r"^[a-z_.]{1,60}$", description="Only this.", examples=["workspace.delete"])
    ] = None,
) -> schemas.Audit:
    """Who did what, newest first."""
    after = None if cursor is None else int(cursor)
    lines, following = await administering.audit_page(
        context.pool, actor, AuditFilter(user, workspace, action), after, limit
    )
    return schemas.Audit(
        items=[_audit_line(line) for line in lines], next_cursor=None if following is None else str(following)
    )


@router.get("/gc")
async def gc_runs(actor: AdminActor, context: InContext, limit: Limit = 20, cursor: Cursor = None) -> schemas.GcRuns:
    """Collections of archives that nobody needs: those that were asked for, and those whose time it was."""
    after = None if cursor is None else GcPlace(*place_of(cursor))
    runs, following = await administering.gc_page(context.pool, actor, after, limit)
    return schemas.GcRuns(
        items=[_gc_run(run) for run in runs],
        next_cursor=None if following is None else cursor_of(following.requested_at, following.id),
    )


@router.post("/gc", status_code=202, responses=errors(409))
async def request_gc(actor: AdminActor, context: InContext, given: schemas.GcOrder | None = None) -> schemas.GcAccepted:
    """Ask for a collection now; the leader begins it at once."""
    order = given or schemas.GcOrder()
    if order.dry_run and order.override:
        raise Invalid("override: a dry run deletes nothing, so there is nothing to override.", "Leave one of them out.")
    identity = await administering.request_gc(
        context.pool, actor, dry_run=order.dry_run, override=order.override, unknown_too=order.unknown_too
    )
    return schemas.GcAccepted(id=identity)


@router.post("/losses", status_code=204)
async def accept_losses(actor: AdminActor, context: InContext, given: schemas.AcceptedLosses) -> None:
    """Say that the homes which a backend lacks are lost, so that their workspaces can be recovered.

    Many that are missing at once are taken for an outage, and left alone, until somebody says this. It is about those
    that are missing now, and stops what still runs of them; no home is removed.
    """
    await administering.accept_losses(context.pool, actor, given.backend)


def _audit_line(line: AuditRow) -> schemas.AuditLine:
    return schemas.AuditLine.model_validate(
        {
            "id": line.id,
            "at": line.at,
            "kind": line.kind,
            "user": _person(line.user_id, line.username),
            "action": line.action,
            "workspace_id": line.workspace_id,
            "address": line.address,
            "details": dict(line.details),
        }
    )


def _gc_run(run: GcRow) -> schemas.GcRun:
    return schemas.GcRun(
        id=run.id,
        requested_by=_person(run.requested_by, run.requested_by_username),
        requested_at=run.requested_at,
        dry_run=run.dry_run,
        override=run.override,
        unknown_too=run.unknown_too,
        started_at=run.started_at,
        finished_at=run.finished_at,
        report=None if run.report is None else dict(run.report),
    )


def _person(identity: UUID | None, username: str | None) -> schemas.Person | None:
    """An account that is gone has no name any more."""
    return None if identity is None else schemas.Person(id=identity, username=username or "")
