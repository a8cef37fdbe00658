"""Real coordinators, as processes of their own that can be killed at any point (points.py).

`python -m tests.crash.coordinator` reads orders from its input, one JSON object per line, and for each forks a process
that is a coordinator with these settings. It tells on its output who was started and who ended, and how. Having
imported everything once, it makes a restart cheap; when its input ends, so do all of them.
"""

import asyncio
import json
import os
import selectors
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from codehub import logs
from codehub.config import Settings
from codehub.coordinator import run as product
from codehub.drivers.load import open_drivers
from tests.crash.points import Points, watch_database, watched_archives, watched_backend


async def coordinate(environment: Mapping[str, str], points: Points) -> None:
    """As `codehub coordinator` does, with points."""
    os.environ.update(environment)
    settings = Settings.load()
    logs.configure(settings.log)
    watch_database(points)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _tell_what_it_does)
    data_dir, database, redis = settings.server.data_dir, settings.database.url, settings.redis.url
    assert data_dir
    assert database
    assert redis
    async with open_drivers(settings, data_dir) as drivers:
        infrastructure = product.Infrastructure(
            watched_archives(drivers.archives, points),
            {name: watched_backend(backend, points) for name, backend in drivers.backends.items()},
            drivers.resources,
        )
        async with product.open_coordinator(
            settings, infrastructure, database.get_secret_value(), redis.get_secret_value()
        ) as coordinator:
            await coordinator.run()


def _tell_what_it_does() -> None:
    """For whoever debugs a coordinator that hangs: the stack of every task, in its log."""
    for task in asyncio.all_tasks():
        task.print_stack()


def _points(given: Mapping[str, Any]) -> Points:
    used, seen = given.get("used"), given.get("seen")
    return Points(
        die_at=given.get("die_at"),
        used=Path(used) if used else None,
        seen=Path(seen) if seen else None,
        only=given.get("only", ""),
        freeze_at=given.get("freeze_at"),
    )


def _be(order: Mapping[str, Any]) -> NoReturn:
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    status = 1
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(coordinate(order["environment"], _points(order["points"])))
    finally:
        sys.stderr.flush()
        os._exit(status)


def _tell(**event: object) -> None:
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()


def _reap(living: set[int]) -> None:
    for pid in list(living):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            living.discard(pid)
            _tell(ended=pid, code=os.waitstatus_to_exitcode(status))


def main() -> None:
    living: set[int] = set()
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run, which then closes our input
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(heard, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == heard:
                    os.read(heard, 4096)
                    _reap(living)
                    continue
                block = os.read(key.fd, 1 << 16)
                if not block:
                    for pid in living:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    return
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    _start(json.loads(line), living)


def _start(order: Mapping[str, Any], living: set[int]) -> None:
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _be(order)
    living.add(pid)
    _tell(started=pid, name=order["name"])


if __name__ == "__main__":
    main()
