"""Serves an IDE that cannot take over a listening socket: carries bytes between ours and the one it listens on.

    bridge.py SOCKET COMMAND…   run COMMAND, which listens on the unix socket SOCKET; end when it ends

Bytes are passed on as they are, both directions on their own, half-closed connections included.
"""

import asyncio
import contextlib
import socket
import sys

INHERITED = 3
_CHUNK_BYTES = 1 << 18

_connected: set["asyncio.Task[None] | None"] = set()  # nobody else holds a half-closed one: it would be garbage


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def connect(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _connected.add(asyncio.current_task())
    with contextlib.suppress(OSError):
        ide_reader, ide_writer = await asyncio.open_unix_connection(path, limit=_CHUNK_BYTES)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(pass_on(reader, ide_writer))
                both.create_task(pass_on(ide_reader, writer))
        except* OSError:
            pass  # one side has gone: so is the connection
        finally:
            ide_writer.close()
    writer.close()
    _connected.discard(asyncio.current_task())


async def main(path: str, command: list[str]) -> int:
    ide = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    listener = socket.socket(fileno=INHERITED)
    server = await asyncio.start_unix_server(
        lambda reader, writer: connect(path, reader, writer), sock=listener, limit=_CHUNK_BYTES
    )
    code = await ide.wait()
    server.close()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2:])))
