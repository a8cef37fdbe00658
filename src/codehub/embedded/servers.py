"""Start and stop both servers together, and keep them running.

Inside `running()` both answer; after it, however it ends, both processes are gone. A server that dies in between is
started again by `keep()`, on the same data and at the same place, so that its clients find it by trying again. How
often, and when that ends, is in restarts.py; meanwhile `trouble` says what is wrong.
"""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import structlog

from codehub.embedded import cluster, postgres, valkey
from codehub.embedded.accounts import server_account
from codehub.embedded.datadir import DataDir
from codehub.embedded.host import Host
from codehub.embedded.process import Child, uninterrupted
from codehub.embedded.restarts import PAUSES, Restarts
from codehub.embedded.runtime import remove_drafts
from codehub.errors import StartError, Unavailable

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0  # at a full disk, for room


def _silent(line: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class RunningServers:
    # Both hold a password, and a repr ends up in logs.
    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    children: list[Child] = field(repr=False)  # every process that was started, the newest last
    data_dir: DataDir = field(repr=False)
    start_again: Mapping[str, Callable[[], Awaitable[object]]] = field(repr=False)
    progress: Callable[[str], None] = field(default=_silent, repr=False)
    pauses: Sequence[float] = field(default=PAUSES, repr=False)
    _troubles: dict[str, Unavailable] = field(default_factory=dict, repr=False)

    def check(self, name: str) -> None:
        """Raises Unavailable with what is wrong while that server is down; returns for one that is not ours."""
        if trouble := self._troubles.get(name):
            raise Unavailable(trouble.message, trouble.hint)

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
        restarts = Restarts(is_needed=name == postgres.NAME, pauses=self.pauses)
        while True:
            since = loop.time()
            restarts.progressed()
            how = await self._newest(name).exited()
            await self._bring_back(name, how, restarts, loop.time() - since)

    async def _bring_back(self, name: str, how: str, restarts: Restarts, lived: float) -> None:
        """Return when it answers again."""
        said = f"{name} stopped unexpectedly ({how})"
        self.progress(f"{said}; starting it again")
        error: StartError | None = None
        checkpoint = self._checkpoint()
        while True:
            is_full = self.data_dir.is_full()
            restarts.died(seconds=lived, is_full=is_full)
            log.error("an embedded server is down and is started again", server=name, how=how, pause=restarts.pause)
            trouble = _trouble(name, said, error, self._newest(name), self.data_dir if is_full else None)
            if restarts.is_hopeless:
                raise Unavailable(trouble.message, f"{trouble.hint} Then start CodeHub again.")
            if is_full and name not in self._troubles:
                self.progress(str(trouble))
            self._troubles[name] = trouble
            await self._pause(restarts.pause, is_full=is_full)
            try:
                await self.start_again[name]()
            except StartError as failed:
                error, lived = failed, 0.0
                if (latest := self._checkpoint()) != checkpoint:
                    checkpoint = latest
                    restarts.progressed()
                log.warning("an embedded server did not start", server=name, reason=str(failed))
            else:
                del self._troubles[name]
                self.progress(f"{name} runs again")
                return

    async def _pause(self, seconds: float, *, is_full: bool) -> None:
        """Shorter where the disk was full and has room again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0 and not (is_full and not self.data_dir.is_full()):  # noqa: ASYNC110 - a disk tells nobody
            await asyncio.sleep(min(left, _LOOK_SECONDS) if is_full else left)

    def _checkpoint(self) -> bytes:
        return cluster.last_checkpoint(self.data_dir.path / "postgres")

    def _newest(self, name: str) -> Child:
        return next(child for child in reversed(self.children) if child.name == name)


def _trouble(name: str, said: str, error: StartError | None, child: Child, full: DataDir | None) -> Unavailable:
    if full is not None:
        return Unavailable(f"{said}: {full.no_room()}.", f"Make room; {name} is then started again by itself.")
    if error is not None:
        return Unavailable(f"{said} and cannot be started again: {error.message}", error.hint)
    return Unavailable(f"{said} and is being started again.", f"Its log may say why: {child.log}.")


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
    warn: Callable[[str], None] = _silent
    """What a person should know although both run."""
    pauses: Sequence[float] = PAUSES
    """Before each attempt to start a server again."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningServers]:
        children: list[Child] = []
        try:
            yield await self._start(children)
        finally:
            await uninterrupted(_stop(children))

    async def _start(self, children: list[Child]) -> RunningServers:
        if not (self.postgres or self.valkey):
            return RunningServers(None, None, [], self.data_dir, {})
        host = Host(self.data_dir, server_account(self.server_user), self.durable, self.progress, self.warn)
        await host.prepare()
        await uninterrupted(asyncio.to_thread(remove_drafts, self.data_dir.runtime))
        start = {
            name: functools.partial(_in_words, name, functools.partial(part, host, children.append))
            for name, part in ((postgres.NAME, postgres.start), (valkey.NAME, valkey.start))
        }
        try:
            async with asyncio.TaskGroup() as group:
                database = group.create_task(start[postgres.NAME]()) if self.postgres else None
                signals = group.create_task(start[valkey.NAME]()) if self.valkey else None
        except ExceptionGroup as group_error:
            expected = group_error.subgroup(StartError)
            if expected is None:
                raise
            raise _first(expected) from None
        return RunningServers(
            database.result() if database else None,
            signals.result() if signals else None,
            children,
            self.data_dir,
            start,
            self.progress,
            self.pauses,
        )


async def _in_words(name: str, start: Callable[[], Coroutine[object, object, str]]) -> str:
    """A disk that is full, or has gone, is told like any other reason."""
    try:
        return await start()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        raise StartError(f"{name} cannot be started: {reason}{where}.", "Mend that and start again.") from error


async def _stop(children: list[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


def _first(errors: ExceptionGroup[StartError]) -> StartError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
