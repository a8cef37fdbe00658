"""Serving the application on a socket that is already bound.

Binding comes first, before anything else is started, so that a port in use is told at once and costs nothing. Signals
are the caller's: this server only ever stops when it is told to.
"""

import asyncio
import errno
import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from codehub.errors import StartError
from codehub.together import finished
from codehub.web.connections import BoundedProtocol, Limits

GRACE_SECONDS = 10
_TICK_SECONDS = 1.0
_IPV4_HERE = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - to listen everywhere was asked for


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket, or one line saying why it cannot be had and what to do. `shared`: beside others of ours."""
    listener = bind(host, port, shared=shared)
    start_listening(listener)
    return listener


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """The same, before anybody can connect to it: until `start_listening` they are refused."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise StartError(f"{host} is not an address of this machine.", "Set CODEHUB_HOST to one that is.") from error
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _bind_error(host, port, error) from error
    listener.setblocking(False)
    return listener


def start_listening(listener: socket.socket) -> None:
    """Raises StartError: another that was bound to the same address may have been quicker."""
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise _bind_error(host, port, error) from error


def listen_beside(listener: socket.socket) -> socket.socket | None:
    """The same port of ::1, for browsers that look for localhost there first; None where that cannot be had."""
    host, port = listener.getsockname()[:2]
    if host not in _IPV4_HERE:
        return None
    try:
        return listen("::1", port)
    except StartError:
        return None


def listen_unix(path: Path) -> socket.socket:
    """A socket that only this user may connect to; one that an earlier process left behind is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.chmod(0o700)
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise StartError(
            f"Cannot listen on {path}: {reason}.", "Choose a shorter path for CODEHUB_DATA_DIR."
        ) from error
    listener.setblocking(False)
    return listener


def local_url(listener: socket.socket, beside: socket.socket | None, *, is_tls: bool = False) -> str:
    """The URL to open on this machine: localhost, where workspaces have origins of their own, if that is surely us."""
    if is_localhost(listener, beside):
        return f"{_scheme(is_tls)}://localhost:{listener.getsockname()[1]}/"
    return url_of(listener, is_tls=is_tls)


def is_localhost(listener: socket.socket, beside: socket.socket | None) -> bool:
    """Whether whoever asks for localhost, by IPv4 or IPv6, surely comes to us."""
    return listener.getsockname()[0] in _IPV4_HERE and (beside is not None or not _has_ipv6())


def login_base(listener: socket.socket, url: str, *, is_sure: bool = False) -> str | None:
    """Where one-time login links lead to, given our local URL; None when this machine's own addresses are not ours.

    A name could lead to another program that has the same port of another loopback address, and would learn the code.
    """
    if is_sure:
        return url
    host, port = listener.getsockname()[:2]
    scheme = url.partition(":")[0]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - listening everywhere was asked for
        return f"{scheme}://127.0.0.1:{port}/" if host == "0.0.0.0" else f"{scheme}://[::1]:{port}/"  # noqa: S104
    return url if ip_address(host).is_loopback else None


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def url_of(listener: socket.socket, *, is_tls: bool = False) -> str:
    """The URL under which a browser on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104  listening everywhere was asked for; the URL needs one address
        host = "localhost"
    return f"{_scheme(is_tls)}://[{host}]:{port}/" if ":" in host else f"{_scheme(is_tls)}://{host}:{port}/"


def _scheme(is_tls: bool) -> str:
    return "https" if is_tls else "http"


async def serve(
    app: FastAPI, listener: socket.socket, limits: Limits | None = None, *, grace_seconds: int = GRACE_SECONDS
) -> None:
    """Serve until cancelled; then finish the requests under way, within `grace_seconds`."""
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        loop="none",
        http=type("Protocol", (BoundedProtocol,), {"limits": limits}),
        limit_concurrency=limits.connections,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # web/csrf.py believes configured proxies; uvicorn would believe any local program
        timeout_graceful_shutdown=grace_seconds,
    )
    gc.collect()
    gc.freeze()  # what is there by now stays; looking through it again and again would hold every request up
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.leave()
        await finished(serving)
        raise


class _QuietServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Once a second, for the date in answers, instead of ten times; told to leave, it leaves at once."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._leaving.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: what stops this process also has other things to stop, in order."""
        yield


def _bind_error(host: str, port: int, error: OSError) -> StartError:
    if error.errno == errno.EADDRINUSE:
        return StartError(
            f"Port {port} on {host} is already in use.",
            "Stop the program that uses it, or choose another port with CODEHUB_PORT.",
        )
    if error.errno == errno.EACCES:
        return StartError(f"This user may not listen on port {port}.", "Choose a port from 1024 up with CODEHUB_PORT.")
    if error.errno == errno.EADDRNOTAVAIL:
        return StartError(f"{host} is not an address of this machine.", "Set CODEHUB_HOST to one that is.")
    return StartError(f"Cannot listen on {host}:{port}: {error.strerror}.", "Check CODEHUB_HOST and CODEHUB_PORT.")
