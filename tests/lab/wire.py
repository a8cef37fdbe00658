"""A wire to a server that a test can cut, mend, silence and slow down, and on which it hears what is said first."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Coroutine[Any, Any, Streams]]


class Wire:
    """Listens on a port of its own, or at `path`, and carries everything to the server and back."""

    def __init__(self, dial: Dial, path: Path | None = None) -> None:
        self.port = 0
        self.path = path
        self.carried = 0  # bytes
        self.delay = 0.0  # of each answer, in seconds
        self.hear: Callable[[bytes], Coroutine[Any, Any, None]] | None = None  # what goes to the server, before it does
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()
        self._loud = asyncio.Event()
        self._loud.set()

    async def mend(self) -> None:
        self._loud.set()
        if self.path is not None:
            self._server = await asyncio.start_unix_server(self._carry, str(self.path))
            return
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Connections break, and new ones are refused."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def silence(self) -> None:
        """Everything stays connected, and nothing arrives any more."""
        self._loud.clear()

    def speak(self) -> None:
        """What was held back arrives, too."""
        self._loud.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await self._dial()
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, far_writer, is_answer=False))
                both.create_task(self._copy(far_reader, writer, is_answer=True))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._carrying.discard(task)
            for end in (writer, far_writer):
                if end is not None:
                    end.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while data := await source.read(1 << 16):
            if is_answer and self.delay:
                await asyncio.sleep(self.delay)
            await self._loud.wait()
            if not is_answer and self.hear is not None:
                await self.hear(data)
            self.carried += len(data)
            sink.write(data)
            await sink.drain()
        with suppress(OSError, RuntimeError):
            sink.write_eof()


@asynccontextmanager
async def mended(wire: Wire) -> AsyncIterator[Wire]:
    """Afterwards it is cut."""
    await wire.mend()
    try:
        yield wire
    finally:
        await wire.cut()


def wire_to_socket(path: Path, target: Path) -> Wire:
    """From one unix socket to another: an engine that is out, without stopping it."""
    return Wire(lambda: asyncio.open_unix_connection(str(target)), path)


def wire_to_url(url: str) -> Wire:
    """To a server of HTTP."""
    target = urlsplit(url)
    return Wire(lambda: asyncio.open_connection(target.hostname, target.port))


@asynccontextmanager
async def wire_to_database(url: str) -> AsyncIterator[tuple[Wire, str]]:
    target = conninfo_to_dict(url)
    host, port = str(target["host"]), int(target.get("port") or 5432)

    async def dial() -> Streams:
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async with mended(Wire(dial)) as wire:
        yield wire, make_conninfo(url, host="127.0.0.1", port=wire.port, sslmode="disable")


@asynccontextmanager
async def wire_to_redis(url: str) -> AsyncIterator[tuple[Wire, str]]:
    target = urlsplit(url)

    async def dial() -> Streams:
        if target.scheme == "unix":
            return await asyncio.open_unix_connection(target.path)
        return await asyncio.open_connection(target.hostname, target.port or 6379)

    async with mended(Wire(dial)) as wire:
        yield wire, f"redis://:{target.password or ''}@127.0.0.1:{wire.port}/0"
