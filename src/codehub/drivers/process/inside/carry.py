"""Carries bytes out of a sandbox and into it; beside.py becomes it when there is somebody to carry.

    carry.py OUTWARD INWARD SOCKET   listening sockets that we inherit, by their numbers; `-`: there is none

OUTWARD: whoever connects is led to the unix socket SOCKET (egress.py). A tunnel that is refused there is noted in
REFUSED: curl and git print no more than the number of its status, so the terminal says why (refusals.sh).

INWARD: whoever connects says `NUMBER\\n` first, and is led to that port of the sandbox's own loopback; where nobody
listens, and for anything but a number, the connection ends at once. The way out is no such port: it is there for the
workspace, not for its visitors.

What else it inherits, the leash, it only keeps. It is one file, and passes bytes on by itself as egress.py and
bridge.py do: it is kept by a descriptor from before an upgrade, and what it would import then is another version's.
"""

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Led = set["asyncio.Task[None]"]  # a half-closed connection is held by nobody else, and would be swept up as garbage
Dial = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Ends]]  # from who calls to where it is led

_CHUNK_BYTES = 1 << 17
_ASKING_SECONDS = 5.0
_DIALLING_SECONDS = 5.0
_MOST_CONNECTIONS = 512
_NUMBER = re.compile(rb"[1-9][0-9]{0,4}")
_DIGITS = 5
_LAST_PORT = 65535
_HEAD_BYTES = 1 << 16
_TUNNEL = b"CONNECT "
_REFUSAL = re.compile(rb"HTTP/1\.1 [45][0-9]{2} ([ -~]{1,400})\r\n")
REFUSED = Path("/tmp/.codehub-refused")  # noqa: S108 - in the sandbox, where /tmp is the workspace's own
_REFUSED_BYTES = 1 << 16


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def lead(led: Led, dial: Dial, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection to its end: both directions on their own, half-closed connections included."""
    task = asyncio.current_task()
    assert task is not None
    led.add(task)
    task.add_done_callback(led.discard)
    with contextlib.suppress(OSError, EOFError):  # nobody is there, or the caller left
        far_reader, far_writer = await dial(reader, writer)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(pass_on(reader, far_writer))
                both.create_task(pass_on(far_reader, writer))
        except* OSError:
            pass  # one side has gone: so is the connection
        finally:
            far_writer.close()
    writer.close()


# -- out -------------------------------------------------------------------------------------------------------------


async def carry_out(listener: socket.socket, path: str) -> None:
    led: Led = set()

    async def dial(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Ends:
        opening = await opening_of(reader)
        far_reader, far_writer = await asyncio.open_unix_connection(path, limit=_CHUNK_BYTES)
        far_writer.write(opening)
        if opening.startswith(_TUNNEL):
            answer = await far_reader.read(_CHUNK_BYTES)
            note_refusal(answer)
            writer.write(answer)
        return far_reader, far_writer

    server = await asyncio.start_server(lambda *ends: lead(led, dial, *ends), sock=listener, limit=_CHUNK_BYTES)
    await server.serve_forever()


async def opening_of(reader: asyncio.StreamReader) -> bytes:
    """What the caller says first; of a request for a tunnel the whole head, for which its caller awaits an answer."""
    said = await reader.read(_CHUNK_BYTES)
    while said.startswith(_TUNNEL) and b"\r\n\r\n" not in said and len(said) < _HEAD_BYTES:
        more = await reader.read(_CHUNK_BYTES)
        if not more:
            break
        said += more
    return said


def note_refusal(answer: bytes) -> None:
    found = _REFUSAL.match(answer)
    if found is None:
        return
    with contextlib.suppress(OSError):  # no room: then curl's own words must do
        is_long = REFUSED.exists() and REFUSED.stat().st_size > _REFUSED_BYTES
        with REFUSED.open("wb" if is_long else "ab") as file:
            file.write(found[1] + b"\n")


# -- in --------------------------------------------------------------------------------------------------------------


async def port_asked_for(reader: asyncio.StreamReader) -> int:
    """ConnectionError for what is no port."""
    said = b""
    async with asyncio.timeout(_ASKING_SECONDS):
        while (byte := await reader.readexactly(1)) != b"\n" and len(said) < _DIGITS:
            said += byte
    if byte != b"\n" or not _NUMBER.fullmatch(said) or int(said) > _LAST_PORT:
        raise ConnectionError(f"{said!r} is no port")
    return int(said)


async def dial_port(port: int) -> Ends:
    try:
        async with asyncio.timeout(_DIALLING_SECONDS):
            return await asyncio.open_connection("127.0.0.1", port, limit=_CHUNK_BYTES)
    except OSError:  # some servers listen on ::1 only
        async with asyncio.timeout(_DIALLING_SECONDS):
            return await asyncio.open_connection("::1", port, limit=_CHUNK_BYTES)


async def carry_in(listener: socket.socket, refused: Sequence[int]) -> None:
    led: Led = set()

    async def dial(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> Ends:
        port = await port_asked_for(reader)
        if port in refused:
            raise ConnectionError(f"port {port} is not for visitors")
        return await dial_port(port)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(led) < _MOST_CONNECTIONS:
            await lead(led, dial, reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(one, sock=listener, limit=_CHUNK_BYTES)
    await server.serve_forever()


# -- both ------------------------------------------------------------------------------------------------------------


async def carry(way_out: tuple[socket.socket, str] | None, ports: socket.socket | None) -> None:
    async with asyncio.TaskGroup() as both:
        if way_out is not None:
            both.create_task(carry_out(*way_out))
        if ports is not None:
            both.create_task(carry_in(ports, [way_out[0].getsockname()[1]] if way_out else []))


def listener_of(word: str) -> socket.socket | None:
    return socket.socket(fileno=int(word)) if word != "-" else None


def main() -> None:
    outward, inward, path = sys.argv[1:]
    out = listener_of(outward)
    asyncio.run(carry((out, path) if out is not None else None, listener_of(inward)))


if __name__ == "__main__":
    main()
