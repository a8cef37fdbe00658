"""Start and stop both servers together.

Inside `running()` both answer; after it, however it ends, both processes are gone. A server that dies in between is
reported by `failed()`; it is not started again, since its clients and the user should know.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from codehub.embedded import postgres, valkey
from codehub.embedded.accounts import server_account
from codehub.embedded.datadir import DataDir
from codehub.embedded.host import Host
from codehub.embedded.process import Child, uninterrupted
from codehub.embedded.runtime import remove_drafts
from codehub.errors import StartError, Unavailable


def _silent(line: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class RunningServers:
    # Both hold a password, and a repr ends up in logs.
    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    children: tuple[Child, ...] = field(repr=False)

    async def failed(self) -> NoReturn:
        """Wait until a server dies although nobody stopped it, and raise what the user is to be told."""
        if not self.children:
            await asyncio.Event().wait()
        deaths = {asyncio.ensure_future(child.exited()): child for child in self.children}
        try:
            done, _ = await asyncio.wait(deaths, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for death in deaths:
                death.cancel()
        first = done.pop()
        child = deaths[first]
        raise Unavailable(
            f"{child.name} stopped unexpectedly ({first.result()}).",
            f"Its log may say why: {child.log}. Then start CodeHub again.",
        )


@dataclass(frozen=True)
class EmbeddedServers:
    """`postgres=False` or `valkey=False` leaves that server out: its URL is None, and an external one is used."""

    data_dir: DataDir
    server_user: str | None = None
    durable: bool = True
    """False only in tests of other things: a power cut then loses data."""
    postgres: bool = True
    valkey: bool = True
    progress: Callable[[str], None] = _silent

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningServers]:
        children: list[Child] = []
        try:
            yield await self._start(children)
        finally:
            await uninterrupted(_stop(children))

    async def _start(self, children: list[Child]) -> RunningServers:
        if not (self.postgres or self.valkey):
            return RunningServers(None, None, ())
        host = Host(self.data_dir, server_account(self.server_user), self.durable, self.progress)
        await host.prepare()
        await uninterrupted(asyncio.to_thread(remove_drafts, self.data_dir.runtime))
        try:
            async with asyncio.TaskGroup() as group:
                database = group.create_task(postgres.start(host, children.append)) if self.postgres else None
                signals = group.create_task(valkey.start(host, children.append)) if self.valkey else None
        except ExceptionGroup as group_error:
            expected = group_error.subgroup(StartError)
            if expected is None:
                raise
            raise _first(expected) from None
        return RunningServers(
            database.result() if database else None, signals.result() if signals else None, tuple(children)
        )


async def _stop(children: list[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


def _first(errors: ExceptionGroup[StartError]) -> StartError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
