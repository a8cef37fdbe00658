"""Coordinators, from outside: starting them, killing them, and knowing how each of them ended."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

KILLED = -signal.SIGKILL
_LINE = 1 << 20


@dataclass
class Coordinator:
    """One process."""

    pid: int
    name: str
    log: Path
    ended: asyncio.Future[int]  # its exit code

    @property
    def lives(self) -> bool:
        return not self.ended.done()

    @property
    def is_frozen(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def signal(self, number: signal.Signals) -> None:
        if self.lives:
            os.kill(self.pid, number)

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@dataclass
class Nursery:
    """The process that coordinators are forked from."""

    process: Process
    _numbers: Iterator[int] = field(default_factory=count)
    _waiting: dict[str, asyncio.Future[int]] = field(default_factory=dict)
    _living: dict[int, asyncio.Future[int]] = field(default_factory=dict)

    async def start(self, environment: Mapping[str, str], log: Path, **points: Any) -> Coordinator:
        loop = asyncio.get_running_loop()
        name = f"coordinator-{next(self._numbers)}"
        started = self._waiting[name] = loop.create_future()
        known = make_conninfo(environment["DATABASE_URL"], options=f"-c codehub.who={name}")  # to writes.py
        order = {"name": name, "environment": {**environment, "DATABASE_URL": known}, "log": str(log), "points": points}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        await self.process.stdin.drain()
        async with asyncio.timeout(60):
            pid = await started
        return Coordinator(pid, name, log, self._living[pid])

    async def hear(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            event = json.loads(line)
            if "started" in event:
                self._living[event["started"]] = loop.create_future()
                self._waiting.pop(event["name"]).set_result(event["started"])
            else:
                self._living.pop(event["ended"]).set_result(event["code"])


@asynccontextmanager
async def open_nursery() -> AsyncIterator[Nursery]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.crash.coordinator", stdin=PIPE, stdout=PIPE, limit=_LINE, start_new_session=True
    )
    nursery = Nursery(process)
    hearing = asyncio.create_task(nursery.hear())
    try:
        yield nursery
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()
        hearing.cancel()
        with suppress(asyncio.CancelledError):
            await hearing


class Herd:
    """As many coordinators as wanted: whoever dies is replaced at once; whoever ends in another way is a failure."""

    def __init__(self, start: Callable[[], Awaitable[Coordinator]]) -> None:
        self._start = start
        self._over = asyncio.get_running_loop().create_future()
        self.members: list[Coordinator] = []
        self.deaths = 0
        self.failures: list[str] = []

    async def keep(self, size: int) -> None:
        """Until it is over; then nobody is left."""
        while not self._over.done():
            while len(self.members) < size:
                self.members.append(await self._start())
            await asyncio.wait([self._over, *self._ends()], return_when=asyncio.FIRST_COMPLETED)
            for each in [each for each in self.members if not each.lives]:
                self._ended(each)
        for each in self.members:
            each.signal(signal.SIGKILL)
        await asyncio.gather(*self._ends())

    def over(self) -> None:
        if not self._over.done():
            self._over.set_result(0)

    def _ends(self) -> "list[asyncio.Future[int]]":
        return [each.ended for each in self.members]

    def _ended(self, one: Coordinator) -> None:
        self.members.remove(one)
        self.deaths += 1
        if one.ended.result() != KILLED:
            self.failures.append(f"{one.name} ended with {one.ended.result()}:\n{one.said()[-3000:]}")


@asynccontextmanager
async def herd_of(size: int, start: Callable[[], Awaitable[Coordinator]]) -> AsyncIterator[Herd]:
    """Inside, there are that many; each that ended was killed."""
    herd = Herd(start)
    keeping = asyncio.create_task(herd.keep(size))
    try:
        yield herd
    finally:
        herd.over()
        await keeping
    assert not herd.failures, herd.failures[0]
