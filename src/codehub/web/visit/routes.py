"""Routes of visits on CodeHub's own origin; what the pages' buttons do, and the files the pages use."""

import asyncio
import contextlib
from collections.abc import Awaitable
from functools import cache
from importlib.resources import files
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from codehub.errors import Conflict, NotAllowed, NotFound, OverLimit
from codehub.model.visiting import PORTS, Destination
from codehub.model.workspace import Desired, RecoverFrom, WorkspaceId
from codehub.services import visits
from codehub.services.actors import Actor, ActorKind
from codehub.services.workspaces import changing, recovering
from codehub.services.workspaces.terms import Terms
from codehub.web.auth import WritingActor
from codehub.web.context import Context, InContext
from codehub.web.our_hosts import target_of
from codehub.web.redirects import has_dots, local_path
from codehub.web.visit import entering, menu, pages, progress
from codehub.web.visit.visit import Visit, see_other

router = APIRouter(include_in_schema=False)
router.include_router(menu.router)

_ROOM_SECONDS, _ROOM_PAUSE_SECONDS = 15.0, 0.3
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_TYPES = {
    "visit.css": "text/css; charset=utf-8",
    "visit.js": "text/javascript; charset=utf-8",
    "menu.js": "text/javascript; charset=utf-8",
}
Next = Annotated[str | None, Query(max_length=2000)]


class Asked(BaseModel):
    """Who wants to be handed over, and where they go afterwards."""

    browser: Annotated[str, Field(alias="for", pattern="^[0-9a-f]{64}$")]
    path: Annotated[str, Field(pattern="^/")]
    port: int | None = None


@cache
def _asset(name: str) -> bytes:
    return (files("codehub.web.visit") / "assets" / name).read_bytes()


def asset(name: str) -> Response:
    if name not in _TYPES:
        raise NotFound("There is no such page.")
    return Response(_asset(name), media_type=_TYPES[name], headers={"Cache-Control": "public, max-age=300"})


@router.get("/.codehub/{name}")
async def assets(name: str) -> Response:
    return asset(name)


@router.get("/w/{identity}/.codehub/menu.js")
async def menu_script(identity: UUID) -> Response:
    """In path mode a workspace's page loads scripts from below its own path only (ADR 22)."""
    del identity  # it is the same for all
    return asset("menu.js")


@router.get("/w/{identity}/.codehub/progress")
async def watch(identity: UUID, request: Request, context: InContext, actor: WritingActor) -> Response:
    visit = Visit.of(request, context, Destination(WorkspaceId(identity)), "/")
    if actor.kind is ActorKind.USER:
        visit.check_own(visit.origin, on_own_origin=False)  # to watch is to wake
        if not visit.sent.is_event_source:
            raise NotAllowed("Only a page that waits may watch.", "Open the workspace itself.", code="cross_site")
    shown = await visits.found(context.pool, actor, visit.to.workspace)
    body = progress.events(context, actor, visit.to.workspace, visit.voice(shown.name))
    return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.post("/w/{identity}/.codehub/start")
async def start(
    identity: UUID,
    request: Request,
    context: InContext,
    actor: WritingActor,
    next: Next = None,  # noqa: A002 - its name in the query
) -> Response:
    """The button of a page: start it, bringing its home back first."""
    visit = Visit.of(request, context, Destination(WorkspaceId(identity)), "/")
    starting = changing.request_state(context.pool, _terms(context), actor, visit.to.workspace, Desired.RUNNING)
    return await _started(visit, actor, next, starting)


@router.post("/w/{identity}/.codehub/start-safely")
async def start_safely(
    identity: UUID,
    request: Request,
    context: InContext,
    actor: WritingActor,
    next: Next = None,  # noqa: A002 - its name in the query
) -> Response:
    """The button of the page of one in ERROR: try again, without the settings in its home."""
    visit = Visit.of(request, context, Destination(WorkspaceId(identity)), "/")
    workspace, source = visit.to.workspace, RecoverFrom.AS_IS
    starting = recovering.recover(
        context.pool, _terms(context), actor, workspace, source, desired=Desired.RUNNING, safe_mode=True
    )
    return await _started(visit, actor, next, starting)


async def _started(visit: Visit, actor: Actor, following: str | None, starting: Awaitable[object]) -> Response:
    back = _below(local_path(following), f"/w/{visit.to.workspace}/")
    try:
        await starting
    except Conflict:
        pass  # what goes on now is what the page says next
    except OverLimit as refused:
        shown = await visits.found(visit.context.pool, actor, visit.to.workspace)
        return entering.limit_page(visit, shown, refused, back)
    return see_other(back)


@router.post("/w/{identity}/.codehub/stop")
async def stop(
    identity: UUID,
    request: Request,
    context: InContext,
    actor: WritingActor,
    *,
    next: Next = None,  # noqa: A002 - its name in the query
    open: UUID | None = None,  # noqa: A002 - as above
) -> Response:
    """The button of a page: make room for another one, and open that."""
    with contextlib.suppress(Conflict):
        await changing.request_state(context.pool, _terms(context), actor, WorkspaceId(identity), Desired.STANDBY)
    if open is not None and await _is_own(context, actor, WorkspaceId(open)):
        await _start_once_there_is_room(context, actor, WorkspaceId(open))
    visit = Visit.of(request, context, Destination(WorkspaceId(identity)), "/")
    return see_other(local_path(next)) if visit.own is not None else pages.onward(visit.voice(), local_path(next))


def _below(path: str, prefix: str) -> str:
    """In path mode a workspace's page may press its own buttons: a redirect from there would let it read elsewhere."""
    return path if path.startswith(prefix) and not has_dots(path) else prefix


async def _is_own(context: Context, actor: Actor, workspace: WorkspaceId) -> bool:
    """A page in path mode may press the button, with any id: it starts nothing of others as an administrator."""
    shown = await visits.found(context.pool, actor, workspace)
    return shown.workspace.owner_user_id == actor.user_id


async def _start_once_there_is_room(context: Context, actor: Actor, workspace: WorkspaceId) -> None:
    """One that is stopping counts until it has stopped. Who has waited in vain is shown the limit again.

    A session waits for one at a time.
    """
    if actor.credential_id in context.making_room:
        return
    context.making_room.add(actor.credential_id)
    try:
        with contextlib.suppress(TimeoutError, Conflict):
            async with asyncio.timeout(_ROOM_SECONDS):
                while True:
                    if await _has_started(context, actor, workspace):
                        return
                    await asyncio.sleep(_ROOM_PAUSE_SECONDS)
    finally:
        context.making_room.discard(actor.credential_id)


async def _has_started(context: Context, actor: Actor, workspace: WorkspaceId) -> bool:
    try:
        await changing.request_state(context.pool, _terms(context), actor, workspace, Desired.RUNNING)
    except OverLimit:
        return False
    return True


@router.get("/w/{identity}/.codehub/enter")
async def enter(identity: UUID, request: Request, context: InContext, asked: Annotated[Asked, Query()]) -> Response:
    """From the workspace's own origin, or from that of a port in it."""
    if asked.port is not None:
        _check_port(asked.port)
    if has_dots(asked.path):  # it would lead elsewhere than below the workspace
        raise NotFound("There is no such page.")
    visit = Visit.of(request, context, Destination(WorkspaceId(identity), asked.port), asked.path)
    if visit.own is None:  # in path mode nobody is handed over, and a page there could read where it leads
        raise NotFound("There is no such page.")
    return await entering.hand_over(visit, asked.browser) if visit.sent.is_navigation else see_other(visit.main_path)


@router.api_route("/w/{identity}/.codehub/port/{port}/{rest:path}", methods=METHODS)
async def visit_port(identity: str, port: int, rest: str, request: Request, context: InContext) -> Response:  # noqa: ARG001 - `rest`
    if port not in PORTS:
        visit = Visit.of(request, context, Destination(_id_of(identity) or WorkspaceId(UUID(int=0))), "/")
        if visit.sent.is_navigation:
            return pages.no_port(visit.voice())
    _check_port(port)
    return await _visit(request, context, identity, port, f"/.codehub/port/{port}")


@router.api_route("/w/{identity}/{rest:path}", methods=METHODS)
async def visit(identity: str, rest: str, request: Request, context: InContext) -> Response:  # noqa: ARG001 - `rest`
    return await _visit(request, context, identity, None, "")


@router.api_route("/w/{identity}", methods=METHODS)
async def visit_without_slash(identity: str, request: Request, context: InContext) -> Response:
    if request.method in {"GET", "HEAD"} and _id_of(identity) is not None:
        query = f"?{request.url.query}" if request.url.query else ""
        return see_other(f"/w/{_id_of(identity)}/{query}")
    return await _visit(request, context, identity, None, "")


async def _visit(request: Request, context: InContext, identity: str, port: int | None, inside: str) -> Response:
    workspace = _id_of(identity)
    if workspace is None:
        return _nothing(request, context)
    sent = target_of(request)
    prefix = f"/w/{identity}{inside}"
    path = sent.removeprefix(prefix) if sent.startswith(prefix) else "/"
    visit = Visit.of(request, context, Destination(workspace, port), path if path.startswith("/") else f"/{path}")
    if str(workspace) != identity and request.method in {"GET", "HEAD"}:
        return see_other(visit.main_path)  # the one spelling that the gate knows
    return await entering.answer(visit)


def _nothing(request: Request, context: InContext) -> Response:
    visit = Visit.of(request, context, Destination(WorkspaceId(UUID(int=0))), "/")
    if visit.sent.is_navigation:
        return pages.missing(visit.voice())
    raise NotFound("There is no such workspace.", "Check its id; it may be somebody else's.")


def _check_port(port: int) -> None:
    if port not in PORTS:
        raise NotFound("There is no such port.", f"Ports from {PORTS.start} to {PORTS.stop - 1} can be opened.")


def _id_of(text: str) -> WorkspaceId | None:
    try:
        return WorkspaceId(UUID(text))
    except ValueError:
        return None


def _terms(context: InContext) -> Terms:
    return Terms.of(context.settings, context.images, context.default_backend)
