"""Who may connect: so many in all, and so many from one address, on all sockets of the process together.

A TLS handshake counts from its first byte on: somebody who begins many and ends none is refused like anybody else.
"""

import asyncio
import contextlib
import socket
import ssl
from functools import partial

from codehub.web import forwarded
from codehub.web.proxy.client import Client
from codehub.web.proxy.engine import Engine
from codehub.web.proxy.places import Origin

_PAUSE_SECONDS = 0.1  # after a failure to accept: there are no more files to be had


async def accept_tls(engine: Engine, listener: socket.socket, context: ssl.SSLContext) -> None:
    """Until cancelled."""
    greeting: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                sock, peer = await engine.loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            origin = engine.origin_of(forwarded.address(peer[0]) or "")
            engine.greeting += 1
            client = Greeted(engine, origin)
            if not engine.admit(client, origin):
                _turn_away(engine, client, origin, sock)
                continue
            task = client.greeting = engine.loop.create_task(_greet(engine, client, sock, context))
            greeting.add(task)
            task.add_done_callback(greeting.discard)
            task.add_done_callback(partial(_greeted, engine, client, origin, sock))
    finally:
        listener.close()
        for task in greeting:
            task.cancel()


class Greeted(Client):
    """One over TLS: it has a place before it is connected, and may have to give it up."""

    __slots__ = ("greeting",)
    greeting: asyncio.Task[None]

    def give_way(self) -> None:
        if self.is_connected():
            super().give_way()
        else:
            self.greeting.cancel()


async def _greet(engine: Engine, client: Greeted, sock: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):  # what is no TLS, or too slow; ssl's own errors are OSErrors
        await engine.loop.connect_accepted_socket(
            lambda: client, sock, ssl=context, ssl_handshake_timeout=engine.limits.head_seconds
        )


def _greeted(engine: Engine, client: Greeted, origin: Origin, sock: socket.socket, _: object) -> None:
    """However it ended, also before it had begun."""
    if not client.is_connected():  # else it leaves its place by itself
        _turn_away(engine, client, origin, sock)


def _turn_away(engine: Engine, client: Greeted, origin: Origin, sock: socket.socket) -> None:
    engine.greeting -= 1
    engine.places.asked(client)
    engine.places.leave(origin)
    sock.close()
