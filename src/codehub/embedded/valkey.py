"""Valkey of our own, for signals between processes: on a unix socket only, with a password.

What it holds is worth keeping over a restart but never the only copy of anything, so the log is synced once a second:
a power cut may cost the last second of hints, and no request waits for the disk. So data that it cannot start on
is set aside, and it starts with none.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import structlog

from codehub.embedded import runtime
from codehub.embedded.claim import Territory, claim, claim_file
from codehub.embedded.host import VALKEY_SOCKET, Host
from codehub.embedded.process import Child, Steps, spawn, uninterrupted
from codehub.errors import StartError

log = structlog.get_logger(__name__)

NAME = "Valkey"
STEPS: Steps = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.03
_PROBE_SECONDS = 5.0
_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)


class _Ended(StartError):
    """By itself, over what it read."""


async def start(host: Host, adopt: Callable[[Child], None]) -> str:
    """Start it and return its URL; `adopt` gets the process as soon as there is one."""
    try:
        return await _start(host, adopt)
    except _Ended as error:
        folder = host.data.path / "valkey"
        if host.data.is_full() or (aside := _set_aside(folder)) is None:
            raise
        log.warning("valkey's data is set aside", folder=str(aside), cause=error.message)
        try:
            url = await _start(host, adopt)
        except _Ended:
            _put_back(aside, folder)  # it was not the data
            raise error from None
        host.warn(f"Valkey could not use its data and started with none; nothing lasting is lost. Kept in {aside}.")
        return url


def _set_aside(folder: Path) -> Path | None:
    """None where there is nothing that could be at fault, or it cannot be moved."""
    aside = folder.with_name(f"{folder.name}-damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    try:
        return folder.rename(aside) if any(folder.iterdir()) else None
    except OSError as error:
        log.warning("valkey's data cannot be set aside", folder=str(folder), cause=str(error))
        return None


def _put_back(aside: Path, folder: Path) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    except OSError as error:
        log.warning("valkey's data stays aside", folder=str(aside), cause=str(error))


async def _start(host: Host, adopt: Callable[[Child], None]) -> str:
    package = runtime.valkey_package()
    folder = host.data.path / "valkey"
    territory = Territory(NAME, folder, host.data.path / "valkey.lock", "valkey-server")
    password = host.data.secret("valkey-password")
    with claim_file(territory) as descriptor, tempfile.TemporaryFile(dir=host.data.path) as configuration:
        await claim(descriptor, territory, STEPS, host.progress)
        host.own(folder)
        installed = await uninterrupted(asyncio.to_thread(runtime.install, package, host.data.runtime))
        # Through standard input, from a file without a name: a password among the arguments is for all to see.
        configuration.write(_configuration(host, folder, password))
        configuration.seek(0)
        host.progress(f"Starting Valkey {'.'.join(package.version.split('.')[:3])}")
        server = await spawn(
            NAME,
            [installed / "bin" / "valkey-server", "-"],
            account=host.account,
            log=host.data.logs / "valkey.log",
            steps=STEPS,
            stdin=configuration,
            keep=[descriptor],
        )
        adopt(server)
    socket = host.data.run / VALKEY_SOCKET
    await _until_ready(server, folder, socket, password)
    await uninterrupted(asyncio.to_thread(runtime.prune, package, host.data.runtime))
    return _url(socket, password)


def url_at(folder: Path) -> str:
    """That of a server that runs on this data directory. Raises StartError when its secret cannot be read."""
    try:
        password = (folder / "secrets" / "valkey-password").read_text().strip()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StartError(f"The secrets of {folder} cannot be read: {reason}.", "Run this as CodeHub's user.") from error
    return _url(folder / "run" / VALKEY_SOCKET, password)


def _url(socket: Path, password: str) -> str:
    return f"unix://:{quote(password, safe='')}@{quote(os.fsencode(socket))}"


def _configuration(host: Host, folder: Path, password: str) -> bytes:
    settings: dict[str, str | Path] = {
        "port": "0",
        "unixsocket": host.data.run / VALKEY_SOCKET,
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "requirepass": password,
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "everysec" if host.durable else "no",
        "save": "",
        "daemonize": "no",
        "logfile": "",
    }
    return b"".join(name.encode() + b" " + _quoted(os.fsencode(value)) + b"\n" for name, value in settings.items())


def _quoted(value: bytes) -> bytes:
    """Valkey's own notation for a value with any bytes in it."""
    return b'"' + b"".join(b"\\x%02x" % byte if byte < 32 or byte in b'"\\' else bytes([byte]) for byte in value) + b'"'


async def _until_ready(server: Child, folder: Path, socket: Path, password: str) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + _READY_SECONDS
    while not await _is_ready(socket, password):
        if server.process.returncode is not None:
            reason = server.last_words(" # ", "FATAL:").rstrip(".")
            code = server.process.returncode
            kind = _Ended if code > 0 or code in _CRASHES else StartError
            raise kind(
                f"Valkey cannot start on {folder}: {reason} (log: {server.log}).",
                "Read the log; you lose no lasting data if you move that folder away and start again.",
            )
        if loop.time() > until:
            raise StartError(f"Valkey was not ready after {_READY_SECONDS:.0f} s (log: {server.log}).")
        await asyncio.sleep(_POLL_SECONDS)


async def _is_ready(socket: Path, password: str) -> bool:
    """Whether it lets us in and has loaded what it kept. Two commands by hand: a whole client would be too much."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                secret = password.encode()
                writer.write(b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n*1\r\n$4\r\nPING\r\n" % (len(secret), secret))
                return [await reader.readline(), await reader.readline()] == [b"+OK\r\n", b"+PONG\r\n"]
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):  # nobody listens yet
        return False
