"""PostgreSQL and Valkey of a test's own, which it may kill and start again without disturbing anybody."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from codehub.embedded import DataDir, EmbeddedServers
from codehub.embedded.process import Child
from tests.embedded.prepared import prepared
from tests.support import short_folder


class OwnServer:
    """One of the two, on a data directory of its own; its URL stays the same."""

    def __init__(self, data: DataDir, *, postgres: bool) -> None:
        self._embedded = EmbeddedServers(data, postgres=postgres, valkey=not postgres)
        self._running = AsyncExitStack()
        self._child: Child | None = None
        self.url = ""

    async def start(self) -> None:
        servers = await self._running.enter_async_context(self._embedded.running())
        (self._child,) = servers.children
        self.url = servers.database_url or servers.redis_url or ""

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        assert self._child is not None
        self._child.process.kill()
        await self._child.process.wait()
        await self._running.aclose()

    async def stop(self) -> None:
        await self._running.aclose()


@asynccontextmanager
async def own_server(*, postgres: bool) -> AsyncIterator[OwnServer]:
    folder = short_folder()
    with DataDir.open(await asyncio.to_thread(prepared, folder / "d")) as data:
        server = OwnServer(data, postgres=postgres)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
    shutil.rmtree(folder)
