"""Workspaces: /workspaces and everything below it."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import to_json

from codehub.db.history import HistoryLine, HistoryPlace
from codehub.db.listing import Filter, Place
from codehub.model.workspace import Phase, WorkspaceId
from codehub.services import visits
from codehub.services.workspaces import changing, creating, deleting, keeping_awake, logs, reading, recovering, usage
from codehub.services.workspaces.changing import Changes
from codehub.services.workspaces.creating import Blueprint
from codehub.services.workspaces.showing import Encoded, Progress
from codehub.signals.progress import read_progress
from codehub.signals.usage import Measurement
from codehub.web.api import schemas
from codehub.web.api.answers import Responses, errors
from codehub.web.api.cursors import cursor_of, numbered_place_of, place_of
from codehub.web.auth import CurrentActor, WritingActor, current_actor
from codehub.web.context import Context, InContext, of

router = APIRouter(tags=["workspaces"])

Limit = Annotated[int, Query(ge=1, le=200, description="Most items of one page.")]
Cursor = Annotated[str | None, Query(max_length=200, description="`next_cursor` of the page before.")]
Phases = Annotated[list[Phase] | None, Query(description="Only those in one of these; may be repeated.")]
Text = Annotated[
    schemas.Search | None, Query(description="Only those with this in the name, the description or a tag.")
]
AskedTags = Annotated[
    list[schemas.Tag] | None, Query(max_length=20, description="Only those with this tag; may be repeated.")
]
Deleted = Annotated[bool, Query(description="The trash instead of what is there.")]
IfMatch = Annotated[
    str | None, Header(max_length=1000, description="ETag of what you have seen: refused with 412 if it has changed.")
]

_ETAG = {"ETag": {"description": "Of what the object shows; for If-Match.", "schema": {"type": "string"}}}


def _shows(status: int, description: str, *statuses: int) -> Responses:
    return {status: {"description": description, "headers": _ETAG}, **errors(404, *statuses)}


async def list_workspaces(
    actor: CurrentActor,
    context: InContext,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    phase: Phases = None,
    q: Text = None,
    tag: AskedTags = None,
    deleted: Deleted = False,
) -> Response:
    """Your workspaces, newest first."""
    asked = Filter(owner=actor.user_id, phases=tuple(phase or ()), text=q or "", tags=tuple(tag or ()), deleted=deleted)
    found = await context.shelf.page(asked, after=place(cursor), limit=limit)
    return await page_answer(context, found)


class _PlainRoute(APIRoute):
    """Asked without parameters, as it mostly is, there is nothing to take apart, which is most of the work."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        with_parameters = super().get_route_handler()

        async def answer(request: Request) -> Response:
            if request.scope["query_string"]:
                return await with_parameters(request)
            return await list_workspaces(await current_actor(request), of(request))

        return answer


router.add_api_route(
    "/workspaces", list_workspaces, response_model=schemas.Workspaces, route_class_override=_PlainRoute
)


@router.post(
    "/workspaces",
    status_code=201,
    response_model=schemas.Workspace,
    responses={**_shows(201, "Made; the coordinator takes it from here.", 409, 410, 429)},
)
async def create_workspace(given: schemas.NewWorkspace, actor: WritingActor, context: InContext) -> Response:
    """Make a workspace. With `from_archive` it begins with the newest archive of another one of yours."""
    source = None if given.from_archive is None else WorkspaceId(given.from_archive)
    other_names = {"instance_backend", "desired"}
    blueprint = Blueprint(**given.model_dump(exclude={"from_archive", *other_names}), from_archive=source)
    made = await creating.create(context.pool, context.terms, actor, blueprint)
    answer = await object_answer(context, made, status=201)
    answer.headers["Location"] = f"/api/v1/workspaces/{made.id}"
    return answer


@router.get(
    "/workspaces/{workspace_id}",
    response_model=schemas.Workspace,
    responses={**_shows(200, "The workspace.")},
)
async def get_workspace(workspace_id: UUID, actor: CurrentActor, context: InContext) -> Response:
    """One workspace; one that is deleted, too."""
    return await object_answer(
        context, await reading.one(context.pool, context.terms, actor, WorkspaceId(workspace_id))
    )


@router.patch(
    "/workspaces/{workspace_id}",
    response_model=schemas.Workspace,
    responses={**_shows(200, "The workspace as it is now.", 409, 412, 429)},
)
async def change_workspace(
    workspace_id: UUID,
    given: schemas.WorkspaceChange,
    actor: WritingActor,
    context: InContext,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Change its names, image or TTLs, or what is wanted of it: RUNNING starts, STANDBY stops, ARCHIVED archives it."""
    changes = Changes(given=frozenset(given.model_fields_set), **given.model_dump(exclude={"desired"}))
    shown = await changing.update(
        context.pool, context.terms, actor, WorkspaceId(workspace_id), changes, if_match=if_match
    )
    return await object_answer(context, shown)


@router.delete(
    "/workspaces/{workspace_id}",
    status_code=202,
    response_model=schemas.Workspace,
    responses={**_shows(202, "It will be deleted.", 409, 412)},
)
async def delete_workspace(
    workspace_id: UUID,
    actor: WritingActor,
    context: InContext,
    *,
    purge: Annotated[bool, Query(description="Keep nothing of it: no archive is made, none is kept.")] = False,
    confirm: Annotated[bool, Query(description="Also when a home that cannot be archived is lost by it.")] = False,
    if_match: IfMatch = None,
) -> Response:
    """Delete it. What it holds is archived first and kept for a while.

    From ERROR nothing can be archived. Where a home would be lost by that, the answer is 409 `needs_confirmation`,
    whose message says what; `confirm=true` deletes it then. A purge needs no confirmation.
    """
    identity = WorkspaceId(workspace_id)
    shown = await deleting.delete(
        context.pool, context.terms, actor, identity, purge=purge, confirmed=confirm, if_match=if_match
    )
    return await object_answer(context, shown, status=202)


@router.post(
    "/workspaces/{workspace_id}/undelete",
    response_model=schemas.Workspace,
    responses={**_shows(200, "The workspace, archived.", 409, 410)},
)
async def undelete_workspace(workspace_id: UUID, actor: WritingActor, context: InContext) -> Response:
    """Take a deletion back, while its archive is kept (`undelete_until`)."""
    return await object_answer(
        context, await deleting.undelete(context.pool, context.terms, actor, WorkspaceId(workspace_id))
    )


@router.post(
    "/workspaces/{workspace_id}/recover",
    response_model=schemas.Workspace,
    responses={**_shows(200, "The workspace; the next look at it answers.", 409, 429)},
)
async def recover_workspace(
    workspace_id: UUID,
    actor: WritingActor,
    context: InContext,
    given: schemas.Recovery | None = None,
) -> Response:
    """Leave ERROR. Without a body the error is only cleared and the workspace looked at again."""
    asked = given or schemas.Recovery()
    shown = await recovering.recover(
        context.pool,
        context.terms,
        actor,
        WorkspaceId(workspace_id),
        asked.source,
        forced=asked.forced,
        desired=asked.desired_state,
        safe_mode=asked.safe_mode,
    )
    return await object_answer(context, shown)


@router.post(
    "/workspaces/{workspace_id}/keep-awake",
    response_model=schemas.Workspace,
    responses={**_shows(200, "The workspace; `next_transition` says when it will stop.", 409)},
)
async def keep_workspace_awake(
    workspace_id: UUID, given: schemas.KeepAwake, actor: WritingActor, context: InContext
) -> Response:
    """Do not stop it for being idle, for at most a day from now; 0 hours end that."""
    lasting = timedelta(hours=given.hours)
    shown = await keeping_awake.keep_awake(context.pool, context.terms, actor, WorkspaceId(workspace_id), lasting)
    return await object_answer(context, shown)


@router.get("/workspaces/{workspace_id}/history", response_model=schemas.History, responses=errors(404))
async def workspace_history(
    workspace_id: UUID, actor: CurrentActor, context: InContext, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """What happened to it, newest first: each change of phase, operation or error, with its cause and duration."""
    after = None if cursor is None else HistoryPlace(*numbered_place_of(cursor))
    found = await reading.history_of(context.pool, actor, WorkspaceId(workspace_id), after, limit)
    following = None if found.next is None else cursor_of(found.next.at, found.next.id)
    return json_answer({"items": [_line(each) for each in found.items], "next_cursor": following})


@router.get("/workspaces/{workspace_id}/visits", response_model=schemas.Visits, responses=errors(404))
async def workspace_visits(workspace_id: UUID, actor: CurrentActor, context: InContext) -> Response:
    """When administrators entered it, newest first: nobody else but its owner can, and they cannot do it unseen."""
    found = await visits.by_others(context.pool, actor, WorkspaceId(workspace_id))
    return json_answer({"items": [{"at": at.isoformat(), "by": username} for at, username in found]})


@router.get("/workspaces/{workspace_id}/logs", response_model=schemas.Logs, responses=errors(404, 409))
async def workspace_logs(
    workspace_id: UUID,
    actor: CurrentActor,
    context: InContext,
    lines: Annotated[int, Query(ge=1, le=5000, description="How many of the newest.")] = 200,
) -> Response:
    """The newest lines that it has written; once it has ended, for a day, the last of them."""
    found = await logs.newest(context.pool, context.redis, actor, WorkspaceId(workspace_id), lines)
    return json_answer({"text": found.text, "cut": found.cut})


@router.get("/workspaces/{workspace_id}/usage", response_model=schemas.Usage, responses=errors(404))
async def workspace_usage(workspace_id: UUID, actor: CurrentActor, context: InContext) -> Response:
    """What it uses: processors, memory, the ports that its programs listen on; its home on disk and its archive."""
    identity = WorkspaceId(workspace_id)
    used = await usage.usage_of(context.pool, context.redis, context.terms, actor, identity)
    found, home = used.usage, used.home
    ports = None if found.newest is None else found.newest.ports
    given = context.settings.resources
    answer = schemas.Usage(
        now=None if found.newest is None else _measurement(found.newest),
        day=[_measurement(each) for each in found.day],
        ports=None if ports is None else [_port(identity, port) for port in ports],
        limits=schemas.UsageLimits(cpus=given.cpus or None, memory_bytes=given.memory or None),
        home=None if home is None else schemas.HomeSize(at=home.at, bytes=home.bytes),
        archive_bytes=used.archive_bytes,
    )
    return raw_answer(answer.model_dump_json().encode())


def place(cursor: str | None) -> Place | None:
    return None if cursor is None else Place(*place_of(cursor))


async def page_answer(context: Context, found: reading.Page) -> Response:
    """A page of objects, put together from what each is already."""
    following = None if found.next is None else cursor_of(found.next.created_at, found.next.id)
    items = b",".join(await _with_progress(context, found.items)) if found.busy else found.json
    return raw_answer(b'{"items":[%b],"next_cursor":%b}' % (items, to_json(following)))


async def object_answer(context: Context, shown: Encoded, *, status: int = 200) -> Response:
    (body,) = await _with_progress(context, [shown])
    answer = raw_answer(body, status=status)
    answer.headers["ETag"] = shown.etag
    return answer


def json_answer(content: object, *, status: int = 200) -> Response:
    return raw_answer(to_json(content), status=status)


def raw_answer(body: bytes, *, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


async def _with_progress(context: Context, items: Sequence[Encoded]) -> list[bytes]:
    """Only what is under way has any; Redis being away costs the progress, not the answer."""
    busy = {each.id: each.op_id for each in items if each.op_id is not None}
    if not busy:
        return [each.json for each in items]
    jobs = await read_progress(context.redis, busy)
    progress = {which: Progress(job.bytes, job.files) for which, job in jobs.items() if job.op_id == busy[which]}
    return [each.with_progress(progress.get(each.id)) for each in items]


def _measurement(each: Measurement) -> schemas.Measurement:
    return schemas.Measurement(at=each.at, cpus=each.cpus, memory_bytes=each.memory_bytes)


def _port(workspace_id: WorkspaceId, port: int) -> schemas.ListeningPort:
    return schemas.ListeningPort(port=port, url=f"/w/{workspace_id}/.codehub/port/{port}/")


def _line(line: HistoryLine) -> dict[str, object]:
    return {
        "at": line.at.isoformat(),
        "phase": line.phase,
        "operation": line.operation,
        "error_reason": line.error_reason,
        "reason": line.reason,
        "cause": line.cause,
        "duration_ms": line.duration_ms,
    }
