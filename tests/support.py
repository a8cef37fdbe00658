"""What every folder of tests shares: a place for servers, databases of one's own, and waiting for a condition."""

import asyncio
import os
import secrets
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from codehub.drivers.process import ProcessDriver
from codehub.together import ended
from tests.lab import runs, skips

TEST_HOSTS = ("codehub.test", "test")  # names that tests call CodeHub by
_PORTS = range(10_000, 20_000)
_MOST_WORKERS = 16
_lent: set[int] = set()


def short_folder() -> Path:
    """Not `tmp_path`: its path is too long for a socket, and closed to the account the servers run under."""
    return runs.current().new_folder()


def folder_in_memory() -> Path:
    """The same for servers that nobody cuts the power of: a database is made there in a quarter of the time."""
    return runs.current().in_memory()


def worker_number() -> int:
    """Of the workers that this run has, from 0."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _MOST_WORKERS


def free_port(beside: int = 0) -> int:
    """A port that is free on every address of this machine, and so is the one this much higher.

    It stays so until it is used: no other worker takes it, nor does the system give it to programs that ask for any.
    """
    own = _PORTS[worker_number() :: _MOST_WORKERS]
    while True:
        port = own[secrets.randbelow(len(own))]
        with socket.socket() as low, socket.socket() as high, suppress(OSError):
            low.bind(("0.0.0.0", port))
            if beside:
                high.bind(("0.0.0.0", port + beside))
            if port not in _lent:
                _lent.add(port)
                return port


def workspace_users() -> range:
    """User ids for workspaces that no other worker has, nor another run of the tests at the same time.

    Without a sandbox a workspace's processes are found, and killed, by them.
    """
    return runs.current().users_of(worker_number())


def first_of(values: Iterable[Any]) -> list[Any]:
    """For a rule that is shown many times over: an ordinary run takes the first, an exhaustive one all."""
    first, *others = values
    return [
        first,
        *(
            pytest.param(*(each if isinstance(each, tuple) else [each]), marks=pytest.mark.exhaustive)
            for each in others
        ),
    ]


AS_ROOT = "make test, as root"
AS_USER = "make test, as an ordinary user"


def missing(what: str, get: str) -> NoReturn:
    """A backend this machine does not have: skips loudly on a laptop, fails where everything is required (CI).

    `get` is the command that gets it: both are told at the end of the run.
    """
    if "CODEHUB_REQUIRE" in os.environ:
        pytest.fail(f"required here, and missing: {what} (get it: {get})")
    skip(what, get)


def skip(what: str, get: str) -> NoReturn:
    """The same for what cannot be had here and now, whatever is required: another user, an older server."""
    pytest.skip(skips.reason(what, get))


def needs_root(why: str) -> None:
    if os.geteuid() != 0:
        missing(f"root, {why}", AS_ROOT)


def needs_sandbox(driver: ProcessDriver) -> None:
    """Of an ordinary CodeHub on this machine."""
    if driver._machine.bwrap is None:
        how = "look what `codehub doctor` says of it" if shutil.which("bwrap") else "apt install bubblewrap"
        missing("a sandbox for workspaces", how)


def eventually(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Poll until it holds; the time limit is for broken code, not for slow machines."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.02)


async def eventually_async(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 20.0) -> None:
    """The same for a condition that must be awaited."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - the state of another process has no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


async def until(condition: Callable[..., object], what: str, seconds: float = 20.0) -> None:
    """The same for a condition of this process, which others change while we wait."""

    async def holds() -> bool:
        return bool(condition())

    await eventually_async(holds, what, seconds)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    """It runs beside the block and has ended after it, for certain: what is left pending ends another test."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        await ended([task])  # it may have missed that
    if not task.cancelled():
        task.result()  # what it failed with


@contextmanager
def again_and_again(ask: Callable[[], str], pause_seconds: float) -> Iterator[Counter[str]]:
    """Somebody asks, in a thread of their own, for as long as the block runs: how often each answer came."""
    seen: Counter[str] = Counter()
    over = threading.Event()

    def look() -> None:
        while not over.wait(pause_seconds):
            seen[ask()] += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(30)


@dataclass
class Databases:
    """Makes databases on one server and removes them at the end."""

    server_url: str
    prefix: str = field(default_factory=lambda: f"codehub_test_{uuid4().hex[:8]}")
    _numbers: Iterator[int] = field(default_factory=count)

    def create(self, template: str | None = None) -> str:
        """A new database, empty or a copy of `template` (its URL, to which nobody may be connected)."""
        name = f"{self.prefix}_{next(self._numbers)}"
        source = conninfo_to_dict(template)["dbname"] if template else "template0"
        with self._server() as server:
            server.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(str(source))))
        return make_conninfo(self.server_url, dbname=name)

    def drop(self, url: str) -> None:
        name = conninfo_to_dict(url)["dbname"]
        with self._server() as server:
            server.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(str(name))))

    @contextmanager
    def one(self, template: str | None = None) -> Iterator[str]:
        url = self.create(template)
        try:
            yield url
        finally:
            self.drop(url)

    @contextmanager
    def _server(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.server_url, autocommit=True) as server:
            yield server
