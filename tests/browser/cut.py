"""A connection between browser and server that can be cut and mended."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit


class Cable:
    """Leads from a port of its own to the server at `url`."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Nothing goes through any more, and what was open breaks."""
        if self._server is not None:
            self._server.close()
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        far: asyncio.StreamWriter | None = None
        try:
            answers, far = await asyncio.open_connection(self._target.hostname, self._target.port)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, far))
                both.create_task(_copy(answers, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._carrying.discard(task)
            for end in (writer, far):
                if end is not None:
                    end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
