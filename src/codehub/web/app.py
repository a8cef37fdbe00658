"""The HTTP application: /healthz (alive), /readyz (dependencies, and how workspaces are kept apart), /metrics.

At the public port the last two are for the networks of CODEHUB_HEALTH_NETWORKS; others learn whether all is well.
The API is in web/api, the dashboard in web/dashboard, errors as answers in web/errors.py.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from codehub import __version__
from codehub.config import Settings
from codehub.dependencies import Checks
from codehub.errors import NotAllowed
from codehub.metrics import Metrics
from codehub.services.provider import Provider
from codehub.signals.throttle import LoginThrottle
from codehub.tracing import Span, span
from codehub.web import csrf, errors, request_ids
from codehub.web.api import (
    admin,
    answers,
    archives,
    events,
    figures,
    health,
    images,
    login_link,
    oidc,
    session,
    tokens,
    users,
    workspaces,
)
from codehub.web.bodies import BodyLimit
from codehub.web.context import Context
from codehub.web.cookie_tossing import CookieTossing
from codehub.web.dashboard import pages
from codehub.web.draining import Draining
from codehub.web.forwarded import Networks, is_trusted, networks
from codehub.web.headers import SECURITY_HEADERS
from codehub.web.health import DependencyState, Looks, look_at
from codehub.web.our_hosts import KnownHosts, hosts_of
from codehub.web.proxy.names import LOGIN
from codehub.web.strict_heads import StrictHeads
from codehub.web.visit import routes as visiting
from codehub.web.visit.hosted import OwnOrigins

# Of web/api.
_ACCOUNTS = (session.router, oidc.router, login_link.router, tokens.router, users.router)
ROUTERS: tuple[APIRouter, ...] = (  # what is asked for most comes first
    workspaces.router,
    archives.router,
    *_ACCOUNTS,
    images.router,
    admin.router,
    health.router,
    figures.router,
    events.router,
)

Isolation = Callable[[], Mapping[str, Sequence[str]]]


def create_app(
    checks: Checks,
    metrics: Metrics,
    isolation: Isolation = dict,
    context: Context | None = None,
    draining: Draining | None = None,
    *,
    settings: Settings | None = None,
) -> FastAPI:
    """The application over the given dependencies; `isolation` says for each backend what keeps workspaces apart.

    Without a context it is the health pages alone: what a process has that serves no people. `settings` say then which
    names it answers at.
    """
    app = FastAPI(
        title="CodeHub", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json"
    )
    draining = app.state.draining = draining or Draining()
    app.state.looks = Looks(lambda: look_at(checks))
    app.state.isolation = isolation
    app.state.metrics = metrics
    app.state.context = context
    if context is not None:
        app.state.throttle = LoginThrottle(context.redis)
        app.state.provider = Provider(context.settings.oidc)
        app.state.findings = health.Findings(context)
        include_api(app)
        app.include_router(visiting.router)
    app.add_middleware(BodyLimit)
    if context is not None:
        app.add_middleware(OwnOrigins, context=context)
        app.add_middleware(CookieTossing, config=context.settings.accounts)
    if (known := context.settings if context is not None else settings) is not None:
        app.add_middleware(
            KnownHosts, hosts=hosts_of(known, to_localhost=context is not None and context.to_localhost), settings=known
        )
    app.add_middleware(StrictHeads)
    trusted = networks(context.settings.accounts.trusted_proxies) if context is not None else ()
    app.add_middleware(Observe, metrics=metrics, trusted=trusted, draining=draining)
    errors.install(app)
    app.add_api_route(
        "/healthz", healthz, methods=["GET", "HEAD"], response_class=PlainTextResponse, include_in_schema=False
    )
    app.add_api_route("/readyz", readyz, include_in_schema=False)
    app.add_api_route("/metrics", metrics_page, include_in_schema=False)
    if context is not None:
        pages.include(app)
    return app


def include_api(app: FastAPI) -> None:
    """Every route of the API, and the errors that it may answer with."""
    for router in ROUTERS:
        more = answers.errors(404, 409, 429) if router in _ACCOUNTS else {}
        app.include_router(router, prefix="/api/v1", responses=answers.COMMON | more)


async def healthz() -> str:
    """Alive: the process runs and answers, whatever its dependencies do."""
    return "ok\n"


async def readyz(request: Request) -> JSONResponse:
    """Ready: every dependency answers; 503 and the reason when one does not. One that answers may have a warning.

    `degraded` (with a 200): requests are served, and something behind them, such as the archive store, is out.
    """
    if request.app.state.draining.begun:
        return JSONResponse({"status": "draining", "dependencies": {}}, HTTPStatus.SERVICE_UNAVAILABLE)
    states = await _look(request)
    ready = all(state.up for state in states.values())
    status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
    degraded = any(state.degraded for state in states.values())
    word = ("degraded" if degraded else "ready") if ready else "not ready"
    if not _is_told_details(request):
        return JSONResponse({"status": word, "dependencies": {}}, status)
    dependencies = {
        name: {"state": "up" if state.up else "down"} | ({"detail": state.detail} if state.detail else {})
        for name, state in states.items()
    }
    body = {
        "status": word,
        "version": __version__,
        "dependencies": dependencies,
        "isolation": {name: list(lines) for name, lines in request.app.state.isolation().items()} | _browser(request),
    }
    return JSONResponse(body, status)


def _is_told_details(request: Request) -> bool:
    """What is wrong here, and what this is made of, is not for everybody who finds the public port."""
    context: Context | None = request.app.state.context
    if context is None:
        return True  # a port of its own, which serves nobody else
    address = csrf.client_address(request, context.settings.accounts)
    return is_trusted(address, networks(context.settings.server.health_networks))


def _browser(request: Request) -> dict[str, list[str]]:
    """How the browser keeps workspaces apart, where this process serves people."""
    context: Context | None = request.app.state.context
    return {} if context is None else {"browser": [hosts_of(context.settings).description]}


async def metrics_page(request: Request) -> Response:
    """Everything Prometheus asks for."""
    if not _is_told_details(request):
        raise NotAllowed("Metrics are not shown to this address.", "CODEHUB_HEALTH_NETWORKS says who may read them.")
    await _look(request)
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.exposition(), media_type=metrics.content_type)


async def _look(request: Request) -> dict[str, DependencyState]:
    looks: Looks = request.app.state.looks
    states = await looks.latest()
    for name, state in states.items():
        request.app.state.metrics.dependency_up.labels(name).set(state.up)
    return states


class Observe:
    """Counts, times and traces every answer, and gives it the headers that all have, its request's id among them."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, trusted: Networks = (), draining: Draining | None = None
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._trusted = trusted
        self._draining = draining or Draining()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        scope.setdefault("state", {})
        request_id = request_ids.assign(scope, self._trusted)
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)  # what a bug becomes, further out

        async def begin(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                has = {name for name, _ in message["headers"]}
                mine = (request_ids.HEADER.encode(), request_id.encode())
                message["headers"] = [*message["headers"], mine, *(each for each in _HEADERS if each[0] not in has)]
                if scope["state"].get("is_logged_in"):
                    message["headers"].append((LOGIN, b"1"))
                if self._draining.begun:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            with bound_contextvars(request_id=request_id), span("request", is_server=True) as traced:
                try:
                    await self._app(scope, receive, begin)
                finally:
                    if traced is not None:
                        _describe(traced, scope, status, request_id)
        finally:
            # Only known routes become labels: a scanner's paths must not grow the registry.
            route = getattr(scope.get("route"), "path", "(none)")
            self._metrics.requests.labels(scope["method"], route, str(status)).inc()
            self._metrics.request_seconds.labels(route).observe(time.perf_counter() - started)


def _describe(traced: Span, scope: Scope, status: int, request_id: str) -> None:
    route = getattr(scope.get("route"), "path", "(none)")
    traced.name = f"{scope['method']} {route}"
    traced.attributes |= {
        "http.request.method": scope["method"],
        "http.route": route,
        "http.response.status_code": status,
        "codehub.request_id": request_id,
    }
    if workspace := scope.get("path_params", {}).get("workspace_id"):
        traced.attributes["codehub.workspace"] = str(workspace)


_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
