"""Valkey of our own, for signals between processes: on a unix socket only, with a password.

What it holds is worth keeping over a restart but never the only copy of anything, so the log is synced once a second:
a power cut may cost the last second of hints, and no request waits for the disk.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from codehub.embedded import runtime
from codehub.embedded.claim import Territory, claim, claim_file
from codehub.embedded.host import VALKEY_SOCKET, Host
from codehub.embedded.process import Child, Steps, spawn, uninterrupted
from codehub.errors import StartError

NAME = "Valkey"
STEPS: Steps = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.03
_PROBE_SECONDS = 5.0


async def start(host: Host, adopt: Callable[[Child], None]) -> str:
    """Start it and return its URL; `adopt` gets the process as soon as there is one."""
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
            raise StartError(
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
