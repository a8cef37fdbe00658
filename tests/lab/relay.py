"""A unix socket that leads to another one, and can be cut and mended: an engine that is out, without stopping it."""

import asyncio
from contextlib import suppress
from pathlib import Path


class Relay:
    """Connections to `path` are carried to `target` while it is open."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()
        self.frozen = False

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._carry, str(self.path))

    async def cut(self) -> None:
        """Nobody listens any more, and every connection breaks."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self.path.unlink(missing_ok=True)
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        far_writer: asyncio.StreamWriter | None = None
        try:
            if self.frozen:
                await asyncio.Event().wait()
            far_reader, far_writer = await asyncio.open_unix_connection(str(self._target))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, far_writer))
                tasks.create_task(_copy(far_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._carrying.discard(task)
            for end in (writer, far_writer):
                if end is not None:
                    end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()
