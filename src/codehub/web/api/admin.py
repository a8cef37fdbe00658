"""What administrators see and ask for: /admin/*."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from codehub.db.audit_pages import AuditFilter
from codehub.db.audit_pages import AuditLine as AuditRow
from codehub.db.gc_runs import GcPlace
from codehub.db.gc_runs import GcRun as GcRow
from codehub.db.listing import Filter, SortKey
from codehub.errors import Invalid
from codehub.model.limits import Quota, SetLimits
from codehub.model.workspace import UserId
from codehub.services import administering
from codehub.services.administering import LimitsInUse
from codehub.web.api import schemas
from codehub.web.api.answers import errors
from codehub.web.api.cursors import cursor_of, place_of
from codehub.web.api.workspaces import AskedTags, Cursor, Deleted, Limit, Phases, Text, page_answer, place
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
    tag: AskedTags = None,
    deleted: Deleted = False,
    owner: Annotated[UUID | None, Query(description="Only this user's.")] = None,
    sort: Annotated[
        str | None,
        Query(pattern=f"^-?({'|'.join(SortKey)})$", description="By what; with a minus, the other way round."),
    ] = None,
) -> Response:
    """Everybody's workspaces, newest first, or sorted."""
    asked = Filter(
        owner=None if owner is None else UserId(owner),
        phases=tuple(phase or ()),
        text=q or "",
        tags=tuple(tag or ()),
        deleted=deleted,
        sort=None if sort is None else SortKey(sort.removeprefix("-")),
        descending=sort is not None and sort.startswith("-"),
    )
    found = await context.shelf.page(asked, after=place(cursor), limit=limit)
    return await page_answer(context, found)


@router.get("/limits")
async def limits(actor: AdminActor, context: InContext) -> schemas.Limits:
    """How many workspaces run, in all and by user, and how many may."""
    return _limits(await administering.limits_in_use(context.pool, context.terms.quota, actor))


@router.put("/limits")
async def change_limits(actor: AdminActor, context: InContext, given: schemas.SetLimits) -> schemas.Limits:
    """Set the limits of all users, from now on; what is null or left out is as configured. Nobody is stopped by it."""
    wanted = SetLimits(
        per_user=given.max_running_per_user,
        total=given.max_running_global,
        workspaces=given.max_workspaces_per_user,
    )
    await administering.change_limits(context.pool, actor, wanted)
    return _limits(await administering.limits_in_use(context.pool, context.terms.quota, actor))


async def _asked_audit(
    *,
    user: Annotated[UUID | None, Query(description="Only what this user did.")] = None,
    workspace: Annotated[UUID | None, Query(description="Only what was done to this workspace.")] = None,
    action: Annotated[
        str | None, Query(pattern=r"^[a-z_.]{1,60}$", description="Only this.", examples=["workspace.delete"])
    ] = None,
    since: Annotated[datetime | None, Query(description="Only from this moment on.")] = None,
    until: Annotated[datetime | None, Query(description="Only before this moment.")] = None,
    order: Annotated[Literal["newest", "oldest"], Query(description="Which come first.")] = "newest",
) -> AuditFilter:
    return AuditFilter(user, workspace, action, _with_zone(since), _with_zone(until), oldest_first=order == "oldest")


AskedAudit = Annotated[AuditFilter, Depends(_asked_audit)]


@router.get("/audit")
async def audit_log(
    actor: AdminActor,
    context: InContext,
    asked: AskedAudit,
    *,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the page before.")
    ] = None,
) -> schemas.Audit:
    """Who did what, newest first, or oldest first."""
    after = None if cursor is None else int(cursor)
    lines, following = await administering.audit_page(context.pool, actor, asked, after, limit)
    return schemas.Audit(
        items=[_audit_line(line) for line in lines], next_cursor=None if following is None else str(following)
    )


@router.get("/audit.csv", response_class=StreamingResponse, responses={200: {"content": {"text/csv": {}}}})
async def audit_as_csv(actor: AdminActor, context: InContext, asked: AskedAudit) -> StreamingResponse:
    """The same, whole, as a table: for whoever keeps or examines it elsewhere."""
    pages = administering.audit_pages(context.pool, actor, asked)
    first = await anext(pages, ())  # what is refused is refused before the answer has begun
    return StreamingResponse(
        _csv_of(first, pages),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="codehub-audit.csv"'},
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
        context.pool,
        actor,
        dry_run=order.dry_run,
        override=order.override,
        unknown_too=order.unknown_too,
        orphans=order.orphans,
    )
    return schemas.GcAccepted(id=identity)


@router.post("/gc/discard", status_code=204, responses=errors(404, 409))
async def discard_archives(actor: AdminActor, context: InContext, given: schemas.DiscardedArchives) -> None:
    """Say that nobody wants archives that the database does not remember.

    They were made in a future that the database lost, and are kept until somebody decides. From now on they are orphans
    like others: they are removed once they have been so for the ordinary delay.
    """
    await administering.discard_archives(context.pool, actor, given.keys)


@router.post("/losses", status_code=204)
async def accept_losses(actor: AdminActor, context: InContext, given: schemas.AcceptedLosses) -> None:
    """Say that the homes which a backend lacks are lost, so that their workspaces can be recovered.

    Many that are missing at once are taken for an outage, and left alone, until somebody says this. It is about those
    that are missing now, and stops what still runs of them; no home is removed.
    """
    await administering.accept_losses(context.pool, actor, given.backend)


def _limits(found: LimitsInUse) -> schemas.Limits:
    return schemas.Limits(
        total=schemas.QuotaInUse(running=found.total, limit=found.quota.total),
        per_user_limit=found.quota.per_user,
        workspaces_per_user_limit=found.quota.workspaces,
        users=[
            schemas.UserInUse(
                user=schemas.Person(id=each.user_id, username=each.username),
                running=each.running,
                limit=found.per_user(each.user_id),
            )
            for each in found.users
        ],
        set=_set_limits(found.limits[None]),
        configured=_set_limits(found.configured),
    )


def _set_limits(given: SetLimits | Quota) -> schemas.SetLimits:
    return schemas.SetLimits(
        max_running_global=given.total,
        max_running_per_user=given.per_user,
        max_workspaces_per_user=given.workspaces,
    )


def _with_zone(moment: datetime | None) -> datetime | None:
    """A time without a zone is UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # those of full width, too
_BREAKS = frozenset("\t\r\n")
_NEXT_CELL = re.compile(rf"[;\t\r\n]\s*[{re.escape(''.join(_FORMULAS))}]")
_CSV_HEAD = ("id", "at", "kind", "user", "action", "workspace_id", "workspace", "address", "details")


async def _csv_of(first: Sequence[AuditRow], pages: AsyncIterator[Sequence[AuditRow]]) -> AsyncIterator[bytes]:
    yield _csv_lines([_CSV_HEAD, *map(_csv_row, first)])
    async for page in pages:
        yield _csv_lines(map(_csv_row, page))


def _csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _csv_row(line: AuditRow) -> Sequence[object]:
    details = {**line.details, **{f"{name}_name": called for name, called in line.names.items()}}
    values = (
        line.id, line.at.isoformat(), line.kind, line.username, line.action, line.workspace_id, line.workspace_name,
        line.address, to_json(details).decode(),
    )  # fmt: skip
    return ["" if value is None else _harmless(str(value)) for value in values]


def _harmless(text: str) -> str:
    """A spreadsheet takes what begins like this for a formula; names are other people's.

    In some countries its cells end at `;`, so what follows there begins one as well.
    """
    text = _NEXT_CELL.sub(lambda found: f"{found[0][:-1]}'{found[0][-1]}", text)
    return f"'{text}" if text.lstrip().startswith(_FORMULAS) or text[:1] in _BREAKS else text


def _audit_line(line: AuditRow) -> schemas.AuditLine:
    return schemas.AuditLine.model_validate(
        {
            "id": line.id,
            "at": line.at,
            "kind": line.kind,
            "user": _person(line.user_id, line.username),
            "action": line.action,
            "workspace_id": line.workspace_id,
            "workspace_name": line.workspace_name,
            "address": line.address,
            "details": dict(line.details),
            "names": dict(line.names),
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
        orphans=run.orphans,
        started_at=run.started_at,
        finished_at=run.finished_at,
        report=None if run.report is None else dict(run.report),
    )


def _person(identity: UUID | None, username: str | None) -> schemas.Person | None:
    """An account that is gone has no name any more."""
    return None if identity is None else schemas.Person(id=identity, username=username or "")
