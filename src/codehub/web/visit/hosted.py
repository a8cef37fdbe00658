"""A workspace's own origin, as far as the gate does not let pass: entering, and the way back. Nothing else is here.

No route of the API answers at such a host, whatever credential comes with it: pages there are the workspace's, and must
not be able to speak to CodeHub as whoever looks at them. The menu (menu.py) is about this one workspace.
"""

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codehub.errors import NotFound, NotLoggedIn, Unavailable
from codehub.model.visiting import Destination, Step
from codehub.services import visits
from codehub.services.sessions import is_secret, new_secret
from codehub.web import cookies, csrf, errors
from codehub.web.auth import bearer_of
from codehub.web.context import Context
from codehub.web.hosts import Place
from codehub.web.our_hosts import hosts_of, target_of
from codehub.web.visit import handover, menu, pages
from codehub.web.visit.entering import no_answer, not_running, try_again
from codehub.web.visit.routes import METHODS, asset
from codehub.web.visit.visit import Visit, again, see_other


class OwnOrigins:
    """ASGI middleware: what is sent to a workspace's host goes nowhere else."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._hosts = hosts_of(context.settings)
        self._hosted = _application(context)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            authority = csrf.authority(Request(scope), self._context.settings.accounts)
            if self._hosts.place_of(authority) not in (Place.MAIN, Place.STRANGE):  # the latter asks whether we live
                await self._hosted(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _application(context: Context) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.context = context
    errors.install(app)
    app.add_api_route("/{rest:path}", _answer, methods=METHODS)
    return app


async def _answer(request: Request) -> Response:
    context: Context = request.app.state.context
    accounts = context.settings.accounts
    hosts = hosts_of(context.settings)
    authority = csrf.authority(request, accounts)
    to = hosts.place_of(authority)
    if not isinstance(to, Destination):
        raise NotFound("There is no workspace at this address.", "Check it, or open the workspace in the dashboard.")
    visit = Visit.of(request, context, to, target_of(request))
    main = hosts.main_origin(authority, is_secure=visit.is_secure)
    if visit.path.partition("?")[0] == handover.ENTER:
        if "code" not in visit.request.query_params:
            return _begin(visit)
        return await _enter(visit, main)
    if visit.path.startswith(menu.MENU):
        return await menu.answer_here(visit, main)
    if visit.path.startswith("/.codehub/"):
        return asset(visit.path.removeprefix("/.codehub/").partition("?")[0])
    try:
        return await _visit(visit, main)
    except Unavailable:
        if visit.sent.is_navigation:
            return pages.unavailable(visit.voice(main=main))
        raise


def _begin(visit: Visit) -> Response:
    """The browser gets a secret, which the code will be drawn for; one that it has is good for another tab too."""
    given = visit.request.query_params
    path = given.get("path", "/")
    browser = cookies.entering_of(visit.request, secure=visit.is_secure)
    if browser is None or not is_secret(browser):
        browser = new_secret()
    main = visit.hosts.main_origin(visit.authority, is_secure=visit.is_secure, known_as=given.get("main"))
    response = see_other(handover.draw_url(main, visit.to, path if path.startswith("/") else f"/{path}", browser))
    cookies.set_entering(response, browser, secure=visit.is_secure, seconds=handover.ENTERING_SECONDS)
    return response


async def _enter(visit: Visit, main: str) -> Response:
    """A code that holds becomes a cookie of this host; whoever comes with another's goes back."""
    code = visit.request.query_params["code"]
    browser = cookies.entering_of(visit.request, secure=visit.is_secure)
    address = csrf.client_address(visit.request, visit.context.settings.accounts)
    back = f"{main}/w/{visit.to.workspace}/"
    if browser is None:
        return pages.dead_end(visit.voice(main=main), "cookies", back)
    try:
        entered = await handover.enter(
            visit.context, code, browser, visit.to, authority=visit.authority, address=address
        )
    except NotLoggedIn:
        return see_other(back)
    except Unavailable:
        return pages.unavailable(visit.voice(main=main))
    if entered is None:
        return pages.dead_end(visit.voice(main=main), "used", back)
    secret, lifetime, path, look = entered
    response = see_other(visit.origin + path)  # with its origin: a path may begin with two slashes
    cookies.set_visit(response, secret, secure=visit.is_secure, seconds=lifetime.total_seconds())
    if look is not None:
        cookies.set_look(response, look, secure=visit.is_secure, seconds=lifetime.total_seconds())
    return response


async def _visit(visit: Visit, main: str) -> Response:
    if bearer_of(visit.request) is not None:
        return await _with_a_token(visit)
    pool, accounts = visit.context.pool, visit.context.settings.accounts
    secret = cookies.visit_of(visit.request, secure=visit.is_secure)
    has_entered = secret is not None and await visits.has_entered(pool, accounts, secret, visit.to)
    runs = has_entered and await visits.is_running(pool, visit.to.workspace)
    if visit.sent.is_navigation:
        if not runs:
            return see_other(main + visit.main_path)
        voice = visit.voice(main=main)
        return pages.unreachable(voice, visit.to.port) if visit.is_unreachable else pages.opening(voice)
    if not has_entered:
        raise NotLoggedIn("This browser has not entered the workspace.", "Open it in a tab.")
    visit.check_own(visit.origin, on_own_origin=True)
    if not runs:
        return not_running(Step.WAIT)
    return no_answer() if visit.is_unreachable else try_again()


async def _with_a_token(visit: Visit) -> Response:
    actor = await visit.actor()
    shown = await visits.found(visit.context.pool, actor, visit.to.workspace)
    if not await visits.is_running(visit.context.pool, visit.to.workspace):
        return not_running(Step.WAIT)
    if await visits.let_in(visit.context.pool, actor, visit.to.workspace, shown.workspace.owner_user_id):
        return again(visit.origin + visit.path)
    return no_answer() if visit.is_unreachable else try_again()
