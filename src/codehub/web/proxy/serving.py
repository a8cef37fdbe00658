"""Serving the public port on sockets that are already bound, until cancelled; then what is under way may end."""

import asyncio
import resource
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace

from prometheus_client import CollectorRegistry

from codehub.together import together
from codehub.web import forwarded
from codehub.web.proxy.accepting import accept_tls
from codehub.web.proxy.client import Client
from codehub.web.proxy.engine import Engine
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.measures import EngineCollector
from codehub.web.proxy.ports import Gate
from codehub.web.proxy.sockets import keep_alive
from codehub.web.proxy.tls import Certificate

_SWEEP_SECONDS = 1.0
_BACKLOG = 1024
_OTHER_FILES = 256  # the database's, Redis's, the log's, kept upstreams


async def serve(
    gate: Gate,
    listeners: Sequence[socket.socket],
    limits: Limits | None = None,
    *,
    trusted_proxies: Iterable[str] = (),
    tls: Certificate | None = None,
    public_url: str | None = None,
    registry: CollectorRegistry | None = None,
    health_networks: Iterable[str] = (),
) -> None:
    """Serve until cancelled; then accept nothing new, finish what is under way within the limits, and cut the rest."""
    limits = _affordable(limits or Limits())
    is_secure = public_url.startswith("https:") if public_url else None
    engine = Engine(
        gate,
        limits,
        forwarded.networks(trusted_proxies),
        is_tls=tls is not None,
        is_secure=is_secure,
        health=forwarded.networks(health_networks),
    )
    if registry is not None:
        EngineCollector(engine, registry)
    for listener in listeners:
        keep_alive(listener)
    sweeping = asyncio.create_task(_sweep(engine, tls))
    try:
        await _accept(engine, listeners, tls)
    finally:
        try:
            await _drain(engine)
        finally:
            sweeping.cancel()
            for one in (*engine.clients, *engine.tunnels):
                one.end()
            engine.pool.sweep(float("inf"))


async def _accept(engine: Engine, listeners: Sequence[socket.socket], tls: Certificate | None) -> None:
    """Until cancelled; then nobody listens any more."""
    if tls is not None:
        await together({f"accept {at}": accept_tls(engine, each, tls.context) for at, each in enumerate(listeners)})
        return
    listen = engine.loop.create_server
    servers = [await listen(lambda: Client(engine), sock=each, backlog=_BACKLOG) for each in listeners]
    try:
        await engine.loop.create_future()
    finally:
        for server in servers:
            server.close()


def _affordable(limits: Limits) -> Limits:
    """With as many open files as this process may have, of which a client needs two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return limits
    return replace(limits, connections=min(limits.connections, max(1, (most - _OTHER_FILES) // 2)))


async def _sweep(engine: Engine, tls: Certificate | None) -> None:
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        engine.sweep()
        if tls is not None:
            tls.refresh()


async def _drain(engine: Engine) -> None:
    engine.is_draining = True
    started = engine.now()
    for one in tuple(engine.clients):
        one.drain()
    while engine.clients or engine.tunnels:
        passed = engine.now() - started
        if passed > engine.limits.drain_seconds:
            for one in tuple(engine.clients):
                one.end()
        if passed > max(engine.limits.drain_seconds, engine.limits.tunnel_seconds):
            break
        await asyncio.sleep(0.05)
