"""Runs an IDE in a sandbox without a network, beside a port on its own loopback that leads to the way out.

    outward.py PORT SOCKET COMMAND…   become COMMAND; a child carries bytes between 127.0.0.1:PORT and the unix socket

Programs find the port in HTTP_PROXY and its like. Who listens behind the socket, and what it refuses: egress.py.
"""

import asyncio
import contextlib
import os
import socket
import sys

_CHUNK_BYTES = 1 << 17


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def carry(listener: socket.socket, path: str) -> None:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            out_reader, out_writer = await asyncio.open_unix_connection(path, limit=_CHUNK_BYTES)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(pass_on(reader, out_writer))
                    both.create_task(pass_on(out_reader, writer))
            except* OSError:
                pass  # one side has gone: so is the connection
            finally:
                out_writer.close()
        writer.close()

    leash, holding = await asyncio.open_unix_connection(path)
    holding.write(b"LEASH / HTTP/1.1\r\n\r\n")  # it is let go when this sandbox ends, however that happens
    await asyncio.start_server(one, sock=listener, limit=_CHUNK_BYTES)
    await leash.read()


def main(port: str, path: str, command: list[str]) -> None:
    listener = socket.create_server(("127.0.0.1", int(port)))  # before the command: it never finds the port closed
    if os.fork() == 0:
        os.closerange(3, listener.fileno())  # the IDE's own socket is none of our business
        os.closerange(listener.fileno() + 1, listener.fileno() + 64)
        asyncio.run(carry(listener, path))
        return
    listener.close()
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
