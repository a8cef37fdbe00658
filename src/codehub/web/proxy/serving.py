"""Serving the public port on a socket that is already bound, until cancelled; then what is under way may end."""

import asyncio
import resource
import socket
from collections.abc import Iterable
from dataclasses import replace

from codehub.web import forwarded
from codehub.web.proxy.client import Client
from codehub.web.proxy.engine import Engine
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Gate
from codehub.web.proxy.tls import Certificate

_SWEEP_SECONDS = 1.0
_BACKLOG = 1024
_OTHER_FILES = 256  # the database's, Redis's, the log's, kept upstreams


async def serve(
    gate: Gate,
    listener: socket.socket,
    limits: Limits | None = None,
    *,
    trusted_proxies: Iterable[str] = (),
    tls: Certificate | None = None,
    public_url: str | None = None,
) -> None:
    """Serve until cancelled; then accept nothing new, finish what is under way within the limits, and cut the rest."""
    limits = _affordable(limits or Limits())
    is_secure = public_url.startswith("https:") if public_url else None
    engine = Engine(gate, limits, forwarded.networks(trusted_proxies), is_tls=tls is not None, is_secure=is_secure)
    _keep_alive(listener)
    server = await engine.loop.create_server(
        lambda: Client(engine),
        sock=listener,
        backlog=_BACKLOG,
        ssl=tls.context if tls else None,
        ssl_handshake_timeout=limits.head_seconds if tls else None,
    )
    sweeping = asyncio.create_task(_sweep(engine, tls))
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        server.close()
        try:
            await _drain(engine)
        finally:
            sweeping.cancel()
            for one in (*engine.clients, *engine.tunnels):
                one.end()
            engine.pool.sweep(float("inf"))


def _affordable(limits: Limits) -> Limits:
    """With as many open files as this process may have, of which a client needs two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return limits
    return replace(limits, connections=min(limits.connections, max(1, (most - _OTHER_FILES) // 2)))


def _keep_alive(listener: socket.socket) -> None:
    """Connections take these from the socket they came in on: a client that vanished is noticed within two minutes."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


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
