"""The public port, as `codehub up` and `codehub proxy` serve it: the engine, the gate, and what tells of activity."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence

from prometheus_client import CollectorRegistry

from codehub.config import Settings
from codehub.db.pool import API_TIMEOUTS, Role, open_pool
from codehub.services.sessions import idle_of
from codehub.services.visits import Doors
from codehub.signals.activity import RedisActivity
from codehub.signals.connect import open_redis
from codehub.signals.subscriptions import Told, subscribe
from codehub.together import ended, finished, together
from codehub.web.our_hosts import hosts_of
from codehub.web.proxy.backends import Backends
from codehub.web.proxy.gate import Gate, Pace
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.measures import GateCollector
from codehub.web.proxy.reporting import Reporter
from codehub.web.proxy.serving import serve
from codehub.web.proxy.tls import Certificate

_CONNECTIONS = 4  # to the database; one statement at a time is the rule


def certificate_of(settings: Settings) -> Certificate | None:
    """The public port's; None without TLS. Raises StartError when it cannot be used."""
    chain, key = settings.server.tls_cert, settings.server.tls_key
    return Certificate(chain, key) if chain is not None and key is not None else None


def limits_of(settings: Settings) -> Limits:
    return Limits(drain_seconds=settings.server.drain_requests, tunnel_seconds=settings.server.drain_websockets)


async def serve_public(
    settings: Settings,
    listeners: Sequence[socket.socket],
    apis: Sequence[str],
    database_url: str,
    redis_url: str,
    *,
    registry: CollectorRegistry | None = None,
    pace: Pace | None = None,
    to_localhost: bool = False,
) -> None:
    """Until cancelled: then what is under way may end, and what was used is reported. `registry` is for its metrics."""
    tls = certificate_of(settings)
    async with (
        open_pool(database_url, Role.PROXY, max_size=_CONNECTIONS, timeouts=API_TIMEOUTS) as pool,
        open_redis(redis_url) as redis,
    ):
        accounts = settings.accounts
        is_guarded = accounts.path_mode != "trusted"

        def hear() -> AsyncGenerator[Told | None, None]:
            return subscribe(redis, settings.redis_channels.sse_prefix)

        gate = Gate(
            Doors(pool, idle=idle_of(accounts), is_guarded=is_guarded),
            hear,
            hosts_of(settings, to_localhost=to_localhost),
            Backends(apis),
            pace,
            is_guarded=is_guarded,
        )
        if registry is not None:
            GateCollector(gate, registry)
        reporter = Reporter(gate.visitors, RedisActivity(redis), settings.activity.flush_interval)
        behind = asyncio.create_task(together({"gate": gate.run(), "activity": reporter.run()}))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    serve(
                        gate,
                        listeners,
                        limits_of(settings),
                        trusted_proxies=accounts.trusted_proxies,
                        tls=tls,
                        public_url=accounts.public_url,
                        registry=registry,
                        health_networks=settings.server.health_networks,
                    )
                )
                group.create_task(_until_it_fails(behind))
        finally:
            try:
                await finished(asyncio.create_task(reporter.report()))
            finally:
                await ended([behind])


async def _until_it_fails(task: "asyncio.Task[None]") -> None:
    await asyncio.shield(task)
