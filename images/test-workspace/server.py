# ruff: noqa: INP001 - a script of its own
"""A workspace for tests: answers HTTP and WebSocket within a moment, needs nothing but the standard library.

    GET  /                     the workspace's id (CODEHUB_WORKSPACE_ID)
    GET  /healthz              ok
    GET  /whoami               uid, gid, capabilities and limits of this process, as JSON
    GET  /files/PATH           a file under $HOME; PUT writes it, making folders
    GET  /fetch?host=&port=    tries a TCP connection: open, refused, unreachable or timeout
    GET  /resolve?host=        the addresses of a name, or nothing
    GET  /ws                   a WebSocket that echoes

Listens on HOST:PORT (0.0.0.0:8080), or on the unix socket named by CODEHUB_SOCKET. It has two children that only
sleep, one in a session of its own, so that tests see whether a removal takes everything.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

_WEBSOCKET_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE, _PING, _PONG = 0x8, 0x9, 0xA
_FETCH_SECONDS = 2.0
_SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]

Headers = dict[str, str]


async def fetch(host: str, port: int) -> str:
    """What a TCP connection from here meets."""
    try:
        async with asyncio.timeout(_FETCH_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    except TimeoutError:
        return "timeout"
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return f"unreachable ({error.strerror})"
    return "open"


async def resolve(host: str) -> str:
    """The addresses that this name has, asked from here."""
    try:
        async with asyncio.timeout(_FETCH_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:  # TimeoutError is one
        return ""
    return " ".join(sorted({str(address[0]) for *_, address in found}))


def whoami() -> Headers:
    """Who this process is, as the kernel tells it."""
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if line.count(":\t") == 1
    )
    return {
        "uid": str(os.getuid()),
        "gid": str(os.getgid()),
        "capabilities": status["CapBnd"],
        "no_new_privileges": status.get("NoNewPrivs", ""),
        "root_is_writable": str(os.access("/", os.W_OK) and _can_write(Path("/codehub-test"))),
        "tmp_is_writable": str(_can_write(Path("/tmp/codehub-test"))),  # noqa: S108
    }


def _can_write(path: Path) -> bool:
    try:
        path.write_bytes(b"")
    except OSError:
        return False
    path.unlink()
    return True


async def answer(method: str, target: str, body: bytes) -> tuple[int, bytes]:
    """The status and body for one request."""
    url = urlsplit(target)
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    if url.path == "/":
        return 200, os.environ.get("CODEHUB_WORKSPACE_ID", "").encode()
    if url.path == "/healthz":
        return 200, b"ok"
    if url.path == "/whoami":
        return 200, json.dumps(whoami()).encode()
    if url.path == "/fetch":
        return 200, (await fetch(query["host"], int(query["port"]))).encode()
    if url.path == "/resolve":
        return 200, (await resolve(query["host"])).encode()
    if url.path.startswith("/files/"):
        home = Path.home().resolve()
        path = (home / unquote(url.path.removeprefix("/files/"))).resolve()
        if not path.is_relative_to(home):
            return 403, b"outside"
        if method == "PUT":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            return 201, b""
        return (200, path.read_bytes()) if path.is_file() else (404, b"no such file")
    return 404, b"no such page"


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
    """Speak WebSocket: send back every frame as it came."""
    digest = hashlib.sha1(key.encode() + _WEBSOCKET_KEY).digest()  # noqa: S324 - the protocol's own
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )
    opcode = 0
    while opcode != _CLOSE:
        first, second = await reader.readexactly(2)
        opcode, size = first & 0x0F, second & 0x7F
        if size >= 126:
            size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
        mask = await reader.readexactly(4)
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(await reader.readexactly(size)))
        if opcode == _PING:
            first = first & 0xF0 | _PONG
        length = (
            bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2) if size < 65536 else b"\x7f" + size.to_bytes(8)
        )
        writer.write(bytes([first]) + length + payload)
        await writer.drain()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, one request after another."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            if headers.get("upgrade", "").lower() == "websocket":
                await echo(reader, writer, headers["sec-websocket-key"])
                return
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            try:
                status, content = await answer(method, target, body)
            except Exception as error:  # noqa: BLE001 - a test wants to read what went wrong
                status, content = 500, repr(error).encode()
            writer.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()


async def main() -> None:
    """Listen until SIGTERM."""
    if path := os.environ.get("CODEHUB_SOCKET"):
        server = await asyncio.start_unix_server(serve, path)
    else:
        host, port = os.environ.get("HOST", "0.0.0.0"), int(os.environ.get("PORT", "8080"))  # noqa: S104
        server = await asyncio.start_server(serve, host, port)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with server:
        await stopped.wait()


if __name__ == "__main__":
    children = [subprocess.Popen(_SLEEP, start_new_session=own) for own in (False, True)]  # noqa: S603
    try:
        asyncio.run(main())
    finally:
        for child in children:
            child.kill()
