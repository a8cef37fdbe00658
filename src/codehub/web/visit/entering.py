"""A visit on CodeHub's own origin: /w/{id}/…, for whoever the gate does not let pass (SPEC section 12)."""

from http import HTTPStatus
from uuid import UUID

from fastapi import Response
from fastapi.responses import JSONResponse

from codehub.db.listing import ShownWorkspace
from codehub.errors import NotAllowed, NotFound, NotLoggedIn, OverLimit, Unavailable
from codehub.model.visiting import Step, may_start_safely, step_of
from codehub.model.workspace import WorkspaceId
from codehub.services import visits
from codehub.services.actors import Actor, ActorKind
from codehub.web.errors import error_body
from codehub.web.visit import handover, pages
from codehub.web.visit.progress import waiting_of
from codehub.web.visit.visit import Visit, again, see_other
from codehub.web.visit.waking import found_awake


async def answer(visit: Visit) -> Response:
    """Whatever it comes to."""
    if not visit.sent.is_navigation:
        return await _for_a_program(visit)
    try:
        actor = await visit.actor()
        return await _for_a_person(visit, actor)
    except NotLoggedIn:
        return visit.to_login()
    except NotFound:
        return pages.missing(visit.voice())
    except Unavailable:
        return pages.unavailable(visit.voice())


async def _for_a_program(visit: Visit) -> Response:
    """Scripts, sockets, frames, tools: they wake nothing, and get errors in their own shape."""
    actor = await visit.actor()
    if actor.kind is ActorKind.USER:
        visit.check_own(visit.origin, on_own_origin=False)
    shown = await visits.found(visit.context.pool, actor, visit.to.workspace)
    step = step_of(shown.workspace)
    if step is Step.GONE:
        raise NotFound("There is no such workspace.", "Check its id; it may be somebody else's.")
    if step is not Step.IN:
        return not_running(step)
    if visit.is_unreachable:
        return no_answer()
    if may_harm(visit, actor, shown):
        raise NotAllowed(
            "Administrators do not enter other people's workspaces in path mode: its pages could act as them.",
            "Open CodeHub at localhost, set CODEHUB_WORKSPACE_HOST, or CODEHUB_PATH_MODE=trusted.",
            code="path_mode",
        )
    if await visits.let_in(visit.context.pool, actor, visit.to.workspace, shown.workspace.owner_user_id):
        return again(visit.main_path)
    if visit.own is not None:
        return again(visit.own_origin + visit.path)
    return try_again()


async def _for_a_person(visit: Visit, actor: Actor) -> Response:
    if may_harm(visit, actor, shown := await visits.found(visit.context.pool, actor, visit.to.workspace)):
        return pages.dead_end(visit.voice(shown.name), "path", None, HTTPStatus.FORBIDDEN)
    try:
        found = await found_awake(visit.context, actor, visit.to.workspace, visit.hold_seconds)
    except OverLimit as refused:
        shown = await visits.found(visit.context.pool, actor, visit.to.workspace)
        return limit_page(visit, shown, refused, visit.main_path)
    voice = visit.voice(found.shown.name)
    match found.step:
        case Step.GONE:
            return pages.missing(visit.voice())
        case Step.ERROR:
            healthy = found.shown.workspace.status.conditions.healthy
            return pages.failed(
                voice,
                visit.to.workspace,
                healthy.reason,
                healthy.message,
                safe_start=visit.main_path if may_start_safely(found.shown.workspace) else None,
                form_origin=visit.own_origin,
            )
        case Step.RESTORE | Step.START:
            what = "archived" if found.step is Step.RESTORE else "pending"
            return pages.needs(voice, what, visit.to.workspace, visit.main_path, visit.own_origin)
        case Step.IN:
            return await _let_in(visit, actor, found.shown, has_waited=found.has_waited)
        case _:
            state = await waiting_of(visit.context, found.shown)
            return pages.waiting(voice, state, f"/w/{visit.to.workspace}/.codehub/progress")


def may_harm(visit: Visit, actor: Actor, shown: ShownWorkspace) -> bool:
    """Whether a page of somebody else's could act as the administrator who looks at it. A program shows no pages."""
    return (
        visit.own is None
        and actor.kind is ActorKind.USER
        and actor.user_id != shown.workspace.owner_user_id
        and visit.context.settings.accounts.path_mode != "trusted"
    )


async def _let_in(visit: Visit, actor: Actor, shown: ShownWorkspace, *, has_waited: bool) -> Response:
    """To its own origin with a code; in path mode once more to the gate, which knows better by now."""
    voice = visit.voice(shown.name)
    if visit.is_unreachable and not has_waited:
        return pages.unreachable(voice, visit.to.port)
    if visit.own is not None:
        if actor.kind is not ActorKind.USER:
            return see_other(visit.own_origin + visit.path)  # a program brings its token there
        return see_other(handover.begin_url(visit.own_origin, visit.path, visit.authority))
    if visit.to.port is not None:
        return pages.dead_end(voice, "ports", None, HTTPStatus.NOT_FOUND)
    is_new = await visits.let_in(visit.context.pool, actor, visit.to.workspace, shown.workspace.owner_user_id)
    return see_other(visit.main_path) if is_new or has_waited else pages.opening(voice)


async def hand_over(visit: Visit, browser: str) -> Response:
    """With a code for the browser that asked at the workspace's own origin; whatever else it takes is done before."""
    try:
        actor = await visit.actor()
        shown = await visits.found(visit.context.pool, actor, visit.to.workspace)
        if step_of(shown.workspace) is not Step.IN or visit.own is None or actor.kind is not ActorKind.USER:
            return see_other(visit.main_path)
        code = await handover.draw(
            visit.context,
            actor,
            visit.to,
            authority=visit.own,
            path=visit.path,
            browser=browser,
            look=visit.look,
        )
    except NotLoggedIn:
        return visit.to_login()
    except NotFound:
        return pages.missing(visit.voice())
    except Unavailable:
        return pages.unavailable(visit.voice())
    if code is None:
        return pages.dead_end(visit.voice(shown.name), "cookies", visit.main_path)
    return see_other(f"{visit.own_origin}{handover.ENTER}?code={code}")


def limit_page(visit: Visit, shown: ShownWorkspace, refused: OverLimit, back: str) -> Response:
    found = refused.details.get("running")
    running = [(WorkspaceId(UUID(each["id"])), each["name"]) for each in found] if isinstance(found, list) else []
    return pages.over_limit(visit.voice(shown.name), visit.to.workspace, running, back, visit.own_origin)


def not_running(step: Step) -> Response:
    message = "The workspace is not running. Open it in a browser tab, or start it."
    body = error_body("not_running", message, {"state": step.name.lower()})
    return JSONResponse(body, HTTPStatus.SERVICE_UNAVAILABLE)


def no_answer() -> Response:
    body = error_body("unreachable", "The workspace runs, but what is in it does not answer. Try again in a moment.")
    return JSONResponse(body, HTTPStatus.BAD_GATEWAY, {"Retry-After": "1"})


def try_again() -> Response:
    body = error_body("try_again", "The workspace has just started, or is about to stop. Try again in a moment.")
    return JSONResponse(body, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"})
