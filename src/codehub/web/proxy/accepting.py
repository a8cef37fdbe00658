"""Who may connect: so many in all, and so many from one address, on all sockets of the process together.

A TLS handshake counts from its first byte on: somebody who begins many and ends none is refused like anybody else.
"""

import asyncio
import contextlib
import socket
import ssl

from codehub.web import forwarded
from codehub.web.proxy.client import Client
from codehub.web.proxy.engine import Engine, counted_as

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
            counted = counted_as(forwarded.address(peer[0]) or "", engine.trusted)
            engine.greeting += 1
            if not engine.admit(counted):
                _turn_away(engine, sock, counted)
                continue
            task = engine.loop.create_task(_greet(engine, sock, context, counted))
            greeting.add(task)
            task.add_done_callback(greeting.discard)
    finally:
        listener.close()
        for task in greeting:
            task.cancel()


async def _greet(engine: Engine, sock: socket.socket, context: ssl.SSLContext, counted: str | None) -> None:
    client = Client(engine, counted, is_counted=True)
    try:
        with contextlib.suppress(OSError):  # what is no TLS, or too slow; ssl's own errors are OSErrors
            await engine.loop.connect_accepted_socket(
                lambda: client, sock, ssl=context, ssl_handshake_timeout=engine.limits.head_seconds
            )
    finally:
        if not client.is_connected():  # else it has a place of its own
            _turn_away(engine, sock, counted)


def _turn_away(engine: Engine, sock: socket.socket, counted: str | None) -> None:
    engine.greeting -= 1
    engine.dismiss(counted)
    sock.close()
