"""A wire to a server that a test can cut, mend and silence."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Wire:
    """Listens on a port of its own and carries everything to the server and back."""

    def __init__(self, dial: Callable[[], Coroutine[Any, Any, Streams]]) -> None:
        self.port = 0
        self.carried = 0
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._loud = asyncio.Event()
        self._loud.set()

    async def mend(self) -> None:
        self._loud.set()
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Connections end, and new ones are refused."""
        self._loud.set()
        assert self._server is not None
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        await self._server.wait_closed()

    def silence(self) -> None:
        """Everything stays connected, and nothing arrives any more."""
        self._loud.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await self._dial()
        self._ends |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self._loud.wait()
                self.carried += len(data)
                sink.write(data)
        sink.transport.abort()


@asynccontextmanager
async def _wire(dial: Callable[[], Coroutine[Any, Any, Streams]]) -> AsyncIterator[Wire]:
    wire = Wire(dial)
    await wire.mend()
    try:
        yield wire
    finally:
        await wire.cut()


@asynccontextmanager
async def wire_to_database(url: str) -> AsyncIterator[tuple[Wire, str]]:
    target = conninfo_to_dict(url)
    host, port = str(target["host"]), int(target.get("port") or 5432)

    async def dial() -> Streams:
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async with _wire(dial) as wire:
        yield wire, make_conninfo(url, host="127.0.0.1", port=wire.port, sslmode="disable")


@asynccontextmanager
async def wire_to_redis(url: str) -> AsyncIterator[tuple[Wire, str]]:
    target = urlsplit(url)

    async def dial() -> Streams:
        if target.scheme == "unix":
            return await asyncio.open_unix_connection(target.path)
        return await asyncio.open_connection(target.hostname, target.port or 6379)

    async with _wire(dial) as wire:
        yield wire, f"redis://:{target.password or ''}@127.0.0.1:{wire.port}/0"
