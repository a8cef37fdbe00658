"""Start and stop both servers together, and keep them running.

Inside `running()` both answer; after it, however it ends, both processes are gone. A server that dies in between is
started again by `keep()`, on the same data and at the same place, so that its clients find it by trying again; one that
does not stay up ends it, since the user should know.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import structlog

from codehub.embedded import postgres, valkey
from codehub.embedded.accounts import server_account
from codehub.embedded.datadir import DataDir
from codehub.embedded.host import Host
from codehub.embedded.process import Child, uninterrupted
from codehub.embedded.runtime import remove_drafts
from codehub.errors import StartError, Unavailable

log = structlog.get_logger(__name__)

MOST_DEATHS = 5
DEATHS_WITHIN_SECONDS = 60.0
_PAUSES = (0.0, 0.5, 1.0, 2.0)  # before each attempt to start it again


def _silent(line: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class RunningServers:
    # Both hold a password, and a repr ends up in logs.
    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    children: list[Child] = field(repr=False)  # every process that was started, the newest last
    start_again: Mapping[str, Callable[[], Awaitable[object]]] = field(repr=False)
    progress: Callable[[str], None] = field(default=_silent, repr=False)

    async def keep(self) -> NoReturn:
        """Start again whatever dies although nobody stopped it; raises what the user is to be told when that fails."""
        if not self.children:
            await asyncio.Event().wait()
        names = {child.name for child in self.children}
        keepers = [asyncio.create_task(self._keep(name), name=f"keep {name}") for name in names]
        try:
            await asyncio.wait(keepers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for keeper in keepers:
                keeper.cancel()
            done = await asyncio.gather(*keepers, return_exceptions=True)
        raise next(error for error in done if isinstance(error, Exception))

    async def _keep(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        deaths: deque[float] = deque(maxlen=MOST_DEATHS)
        while True:
            child = self._newest(name)
            how = await child.exited()
            deaths.append(loop.time())
            if len(deaths) == MOST_DEATHS and deaths[-1] - deaths[0] < DEATHS_WITHIN_SECONDS:
                raise Unavailable(
                    f"{name} stopped unexpectedly ({how}), {MOST_DEATHS} times within a short while.",
                    f"Its log may say why: {child.log}. Then start CodeHub again.",
                )
            log.error("an embedded server stopped unexpectedly and is started again", server=name, how=how)
            self.progress(f"{name} stopped unexpectedly ({how}); starting it again")
            await asyncio.sleep(_PAUSES[min(len(deaths), len(_PAUSES)) - 1])
            try:
                await self.start_again[name]()
            except StartError as error:
                # A process that was started and has died is noticed above; one that could not be started is not.
                if self._newest(name) is child:
                    raise Unavailable(f"{name} cannot be started again: {error.message}", error.hint) from error
                log.exception("an embedded server did not start", server=name)

    def _newest(self, name: str) -> Child:
        return next(child for child in reversed(self.children) if child.name == name)


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
            return RunningServers(None, None, [], {})
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
        again = {
            postgres.NAME: lambda: postgres.start(host, children.append),
            valkey.NAME: lambda: valkey.start(host, children.append),
        }
        return RunningServers(
            database.result() if database else None,
            signals.result() if signals else None,
            children,
            again,
            self.progress,
        )


async def _stop(children: list[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


def _first(errors: ExceptionGroup[StartError]) -> StartError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
