"""The menu in an open IDE (ADR 26): what its script asks for, and the little that it may ask for.

    GET  /.codehub/menu/status         lines of JSON for as long as the tab is looked at
    POST /.codehub/menu/keep-awake     ?hours=4
    POST /.codehub/menu/stop

At the workspace's own origin the visit's cookie says who asks, in path mode the session's below /w/{id}/. The page is
the workspace's, so whatever runs in there may ask as well: nothing here is about any other workspace, and only its
owner changes anything, because the page's code is the owner's.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from http import HTTPStatus
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from codehub.db.listing import ShownWorkspace
from codehub.errors import Invalid, NotAllowed, NotFound, NotLoggedIn, OverLimit
from codehub.model.visiting import Destination
from codehub.model.workspace import Desired, WorkspaceId
from codehub.services import visits
from codehub.services.actors import Actor, ActorKind
from codehub.services.workspaces import changing, keeping_awake
from codehub.web import cookies, csrf
from codehub.web.auth import WritingActor, bearer_of
from codehub.web.context import Context, InContext
from codehub.web.visit import entering
from codehub.web.visit.status import MenuStatus, status_of
from codehub.web.visit.visit import Visit
from codehub.web.visit.words import LANGUAGES
from codehub.web.watching import Look

router = APIRouter(include_in_schema=False)

MENU = "/.codehub/menu/"
HOURS = (0, 1, 4, 8, 24)  # as in the dashboard; none turns it off
_HEARTBEAT_SECONDS = 20.0
_LONGEST_SECONDS = 600.0  # then the page asks again, and who asks is looked at again
_MOST_OPEN = 20  # by one login, of one workspace
_ONCE_SECONDS = 1.0  # the same again within this is the same request
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def answer_here(visit: Visit, main: str) -> Response:
    """At the workspace's own origin."""
    if bearer_of(visit.request) is not None or visit.to.port is not None:
        raise NotFound("There is no such page.")  # a program has the API, and a port is no IDE
    context = visit.context
    secret = cookies.visit_of(visit.request, secure=visit.is_secure)
    address = csrf.client_address(visit.request, context.settings.accounts)
    accounts = context.settings.accounts
    actor = None if secret is None else await visits.visitor(context.pool, accounts, secret, visit.to, address)
    if actor is None:
        raise NotLoggedIn("This browser has not entered the workspace.", "Open it in a tab.")
    visit.check_own(visit.origin, on_own_origin=False)  # no port's page either: that need not be the IDE's
    return await _answer(visit, actor, visit.path.removeprefix(MENU).partition("?")[0], main)


@router.api_route("/w/{identity}/.codehub/menu/{what}", methods=["GET", "POST"])
async def answer_in_path_mode(
    identity: UUID, what: str, request: Request, context: InContext, actor: WritingActor
) -> Response:
    visit = Visit.of(request, context, Destination(WorkspaceId(identity)), "/")
    if actor.kind is not ActorKind.USER or visit.own is not None:
        raise NotFound("There is no such page.")
    visit.check_own(visit.origin, on_own_origin=False)
    shown = await visits.found(context.pool, actor, visit.to.workspace)
    if entering.may_harm(visit, actor, shown):
        raise NotAllowed("Administrators do not enter other people's workspaces in path mode.", code="path_mode")
    return await _answer(visit, actor, what, "")


async def _answer(visit: Visit, actor: Actor, what: str, main: str) -> Response:
    match visit.request.method, what:
        case "GET", "status":
            _check_place(visit, actor)
            told = lines(visit.context, actor, visit.to.workspace, _look_of(visit, main))
            return StreamingResponse(told, media_type="application/x-ndjson", headers=_HEADERS)
        case "POST", "keep-awake":
            await _change(visit, actor, _hours_of(visit))
        case "POST", "stop":
            await _change(visit, actor, None)
        case _:
            raise NotFound("There is no such page.")
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _change(visit: Visit, actor: Actor, hours: int | None) -> None:
    """Keep it awake for so many hours; None stops it. A page that asks all the time has it written once a second."""
    context, workspace = visit.context, visit.to.workspace

    async def change() -> None:
        shown = await visits.found(context.pool, actor, workspace)
        if not _is_owner(actor, shown):
            raise NotAllowed("Only its owner changes a workspace from inside.", "Use the dashboard.", code="owner_only")
        if hours is None:
            await changing.request_state(context.pool, context.terms, actor, workspace, Desired.STANDBY)
        else:
            await keeping_awake.keep_awake(context.pool, context.terms, actor, workspace, timedelta(hours=hours))

    await context.shared.get(("menu", workspace, actor.user_id, hours), _ONCE_SECONDS, change)


def _check_place(visit: Visit, actor: Actor) -> None:
    if visit.context.watch.open_by(visit.to.workspace, UUID(actor.credential_id)) >= _MOST_OPEN:
        raise OverLimit(
            f"The menu of this workspace is open in {_MOST_OPEN} tabs, which is the most there may be.",
            "Close some of them.",
            code="too_many_streams",
            details={"limit": _MOST_OPEN},
            retry_after=5,
        )


def _hours_of(visit: Visit) -> int:
    given = visit.request.query_params.get("hours", "")
    if given not in [str(each) for each in HOURS]:
        raise Invalid("hours: that is no choice of the menu.", f"Use one of {', '.join(map(str, HOURS))}.")
    return int(given)


async def lines(
    context: Context, actor: Actor, workspace: WorkspaceId, menu: Mapping[str, object]
) -> AsyncGenerator[bytes, None]:
    """First how the menu looks; then how the workspace is, whenever that has changed; empty lines keep it open."""
    watch, session = context.watch, UUID(actor.credential_id)
    now = asyncio.get_running_loop().time
    until, last = now() + _LONGEST_SECONDS, None
    yield _line({"menu": menu})
    with watch.watching(workspace, session):
        while now() < until:
            try:
                look = await watch.next(_HEARTBEAT_SECONDS)
            except TimeoutError:
                yield b"\n"
                continue
            if look is None:
                return
            if (workspace, session) not in look.asked:
                continue
            status = _status(look, workspace, actor) if session in look.alive else None
            if status is None:
                return  # who asks again is told why
            if status != last:
                yield _line({"status": status.as_dict(look.now)})
            last = status


def _status(look: Look, workspace: WorkspaceId, actor: Actor) -> MenuStatus | None:
    """None for one that is not theirs, as everywhere."""
    shown = look.shown.get(workspace)
    if shown is None or not (actor.is_admin or _is_owner(actor, shown)):
        return None
    return status_of(shown, actor, look.now)


def _is_owner(actor: Actor, shown: ShownWorkspace) -> bool:
    return shown.workspace.owner_user_id == actor.user_id


def _look_of(visit: Visit, main: str) -> Mapping[str, object]:
    voice = visit.voice()
    words = {key.removeprefix("menu."): text for key, text in LANGUAGES[voice.lang].items() if key.startswith("menu.")}
    return {
        "lang": voice.lang,
        "theme": voice.theme,
        "words": words,
        "hours": [each for each in HOURS if each],
        "dashboard": f"{main}/",
        "workspace": f"{main}/workspaces/{visit.to.workspace}",
    }


def _line(told: Mapping[str, object]) -> bytes:
    return json.dumps(told, ensure_ascii=False).encode() + b"\n"
