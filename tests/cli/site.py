"""A CodeHub for the command line: the real application and coordinator on real servers, over a world in memory.

It lives in a thread with an event loop of its own, so that commands, which wait, can be run beside it.
"""

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
import structlog

from codehub.cli.main import main
from codehub.cli.serving import application, serve_with_events
from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db.pool import Pool, Role, open_pool
from codehub.dependencies import Dependency
from codehub.drivers.base import Resources
from codehub.drivers.memory import MemoryWorld
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.services.actors import Scope, UserRole
from codehub.signals.connect import open_redis
from codehub.web.context import Context
from codehub.web.server import listen, url_of
from tests.accounts.people import Person, add_person, set_password, token_headers

PASSWORD = "correct horse battery"
IMAGES = {InstanceBackend.PROCESS: ["ide", "jupyterlab"]}
T = TypeVar("T")


@dataclass
class Site:
    """A CodeHub that runs; `ada` is a user and `root` an administrator, both with PASSWORD."""

    url: str
    world: MemoryWorld
    database: str
    pool: Pool
    loop: asyncio.AbstractEventLoop
    said: io.StringIO  # what it logged
    people: dict[str, Person] = field(default_factory=dict)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """In the site's loop."""
        waiting: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return waiting.result(30)

    def token(self, username: str = "ada", scope: Scope = Scope.WRITE, lifetime: timedelta | None = None) -> str:
        headers = self.run(token_headers(self.pool, self.people[username], scope, lifetime))
        return headers["Authorization"].removeprefix("Bearer ")

    def misfortune(self, happens: str, identity: str) -> None:
        """Something befalls a workspace of the world."""
        verb = getattr(self.world, happens)
        self.loop.call_soon_threadsafe(verb, WorkspaceId(UUID(identity)))


@contextmanager
def running_site(database: str, redis: str, images: Mapping[InstanceBackend, list[str]] = IMAGES) -> Iterator[Site]:
    started: Future[tuple[Site, asyncio.Event]] = Future()
    said = io.StringIO()

    def live() -> None:
        try:
            asyncio.run(_live(database, redis, images, said, started))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            if not started.done():
                started.set_exception(error)

    logging = structlog.get_config()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(said))  # not among what commands print
    thread = threading.Thread(target=live, name="site")
    thread.start()
    try:
        site, over = started.result(60)
        try:
            yield site
        finally:
            site.loop.call_soon_threadsafe(over.set)
            thread.join(30)
            assert not thread.is_alive()
    finally:
        structlog.configure(**logging)


async def _live(
    database: str,
    redis_url: str,
    images: Mapping[InstanceBackend, list[str]],
    said: io.StringIO,
    started: "Future[tuple[Site, asyncio.Event]]",
) -> None:
    settings, world, over = Settings.load(), MemoryWorld(), asyncio.Event()
    quick = settings.coordinator.model_copy(update={"idle_interval": 0.2, "active_interval": 0.05})
    settings = settings.model_copy(update={"coordinator": quick})
    infrastructure = Infrastructure(world.archives, {InstanceBackend.PROCESS: world.backend()}, Resources())
    async with (
        open_pool(database, Role.API) as pool,
        open_redis(redis_url) as redis,
        open_coordinator(settings, infrastructure, database, redis_url) as coordinator,
    ):
        context = Context(settings, pool, redis, lambda: images, InstanceBackend.PROCESS)
        app = application({Dependency.COORDINATOR: coordinator.check}, context)
        with contextlib.closing(listen("127.0.0.1", 0)) as listener:
            site = Site(url_of(listener).rstrip("/"), world, database, pool, asyncio.get_running_loop(), said)
            for name, role in (("ada", UserRole.USER), ("root", UserRole.ADMIN)):
                site.people[name] = await add_person(pool, name, role)
                await set_password(pool, site.people[name], PASSWORD)
            parts = [asyncio.create_task(serve_with_events(app, listener)), asyncio.create_task(coordinator.run())]
            for part in parts:
                part.add_done_callback(lambda ended: print("ended:", ended, file=said))
            started.set_result((site, over))
            await over.wait()
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line that it failed with."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("codehub: ")
        assert not self.out, self.out
        return lines[0].removeprefix("codehub: ")


class Input(io.StringIO):
    """Standard input that is no terminal."""


@dataclass
class Shell:
    """Commands as a person runs them, in this process: each begins with the arguments and the environment alone.

    None waits for ever: a person would press Ctrl-C, and a test that cannot end tells nobody why.
    """

    monkeypatch: pytest.MonkeyPatch
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    site: Site | None = None  # whose log is shown where a command fails

    def __call__(self, *arguments: str, given: str = "", **environment: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with self.monkeypatch.context() as here:
            for name in ("CODEHUB_URL", "CODEHUB_TOKEN", "CODEHUB_PASSWORD"):
                here.delenv(name, raising=False)
            here.setenv("XDG_CONFIG_HOME", str(self.home))
            for name, value in {**self.environment, **environment}.items():
                here.setenv(name, value)
            patience = [] if "--wait" not in arguments or "--timeout" in arguments else ["--timeout", "60"]
            here.setattr(sys, "argv", ["codehub", *arguments, *patience])
            here.setattr(sys, "stdin", Input(given))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main()
        assert isinstance(ended.value.code, int)
        return Done(int(ended.value.code), out.getvalue(), err.getvalue())

    def ok(self, *arguments: str, given: str = "", **environment: str) -> Done:
        done = self(*arguments, given=given, **environment)
        assert done.code == 0, f"{done}\n{self.site.said.getvalue() if self.site else ''}"
        return done
