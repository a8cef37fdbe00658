"""From the gate's decision to a connection: everything on the way that has to be waited for."""

import asyncio
from collections.abc import Awaitable

import structlog

from codehub.web.proxy import answers
from codehub.web.proxy.engine import Engine
from codehub.web.proxy.headers import is_own_origin
from codehub.web.proxy.ports import Decision, Exchange, Refusal, Request, Route
from codehub.web.proxy.sockets import keep_alive
from codehub.web.proxy.upstream import Upstream

log = structlog.get_logger(__name__)

Reached = tuple[Route, Upstream] | Refusal


def admitted(decision: Decision, request: Request) -> Decision:
    """The gate's decision, unless another origin's page wants to open a WebSocket, wherever to.

    By that `codehub doctor` knows that its handshake arrived as one: services/doctor/websockets.py.
    """
    if request.is_upgrade and isinstance(decision, Route) and not is_own_origin(request):
        return answers.CROSS_ORIGIN
    return decision


async def reach(engine: Engine, asked: Decision | Awaitable[Decision], request: Request, exchange: Exchange) -> Reached:
    """A new connection to where the gate says, or to where it says when there is none to be had. Never raises."""
    tried: list[Route] = []
    try:
        decision = admitted(await _decided(asked), request)
        if isinstance(decision, Route) and decision.is_over:  # since it was decided: nobody would end this
            decision = admitted(await _decided(engine.gate.route(request)), request)
        while isinstance(decision, Route) and decision not in tried:
            upstream = await _try(engine, decision, exchange)
            if upstream is not None:
                return decision, upstream
            tried.append(decision)
            decision = admitted(await _decided(engine.gate.failed(tried, request)), request)
    except Exception:
        log.exception("a request could not be routed")
        return answers.FAILED
    return answers.UNREACHABLE if isinstance(decision, Route) else decision


async def _decided(asked: Decision | Awaitable[Decision]) -> Decision:
    return asked if isinstance(asked, Route | Refusal) else await asked


async def _try(engine: Engine, route: Route, exchange: Exchange) -> Upstream | None:
    route.open.add(exchange)
    try:
        return await connect(engine, route)
    except OSError as error:
        route.open.discard(exchange)
        log.info("an upstream cannot be reached", address=route.address, reason=str(error) or "no answer in time")
        return None
    except BaseException:
        route.open.discard(exchange)
        raise


async def connect(engine: Engine, route: Route) -> Upstream:
    """A new connection to where the route leads; OSError (or TimeoutError, which is one) if there is none to be had."""
    limits, loop = engine.limits, engine.loop
    upstream = Upstream(route.key, engine.pool, limits.head_bytes, limits.write_bytes)
    try:
        async with asyncio.timeout(limits.connect_seconds):
            if route.address.startswith("unix:"):
                await loop.create_unix_connection(lambda: upstream, route.address.removeprefix("unix:"))
                if route.port is not None:  # one socket leads to all ports: it is told which
                    upstream.transport.write(b"%d\n" % route.port)
            else:
                host, _, port = route.address.rpartition(":")
                await loop.create_connection(lambda: upstream, host.strip("[]"), int(port))
                keep_alive(upstream.transport.get_extra_info("socket"))
    except BaseException:
        if hasattr(upstream, "transport"):  # made, and cancelled in the same moment
            upstream.close()
        raise
    return upstream
