"""One server process: started so that it dies with us, stopped in an orderly way, never leaked by a cancellation.

Everything starts through `guard.py` in a session of its own: a Ctrl-C in the terminal reaches CodeHub alone, which
then stops the servers after their clients. The environment is not handed down, since it may hold secrets.
"""

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import Process
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from codehub.embedded import guard
from codehub.embedded.accounts import Account
from codehub.errors import StartError

T = TypeVar("T")
# How a process is asked to stop: each signal with the seconds it is given to work.
Steps = Sequence[tuple[signal.Signals, float]]

_LOG_LIMIT_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 64 * 1024
_KILLED_SECONDS = 10.0


@dataclass(frozen=True)
class Child:
    name: str
    log: Path
    log_start: int
    """Where in the log this run begins."""
    process: Process
    steps: Steps

    async def exited(self) -> str:
        """Wait until it is gone; how it went, in words."""
        code = await self.process.wait()
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    async def stop(self) -> None:
        """Ask, insist, kill; afterwards the process is gone and reaped."""
        for number, seconds in (*self.steps, (signal.SIGKILL, _KILLED_SECONDS)):
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), seconds)
                return

    def last_words(self, *markers: str) -> str:
        """The last line of this run's log that has one of the markers, or the last line of all."""
        with self.log.open("rb") as file:
            file.seek(max(self.log_start, self.log.stat().st_size - _TAIL_BYTES))
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        for line in reversed(lines):
            for marker in markers:
                if marker in line:
                    return line.partition(marker)[2].strip()
        return lines[-1].strip() if lines else "it said nothing"


async def spawn(
    name: str,
    command: Sequence[str | Path],
    *,
    account: Account,
    log: Path,
    steps: Steps,
    stdin: IO[bytes] | None = None,
    keep: Sequence[int] = (),
) -> Child:
    """Start `command` as `account`. It gets the first of `steps` when we die, and has the descriptors in `keep`."""
    if threading.current_thread() is not threading.main_thread():
        # The kernel reports the death of the thread that forked, which for any other thread is too early.
        raise RuntimeError("servers must be started from the main thread")
    who = "-" if account.is_ours else f"{account.uid}:{account.gid}"
    arguments = ("run", str(int(steps[0][0])), who, str(os.getpid()), "--", *map(str, command))
    output = _open_log(log)
    start = os.fstat(output).st_size
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            guard.__file__,
            *arguments,
            stdin=stdin or asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            start_new_session=True,
            pass_fds=keep,
        )
    )
    try:
        process = await uninterrupted(starting)
    except asyncio.CancelledError:
        if not starting.cancelled() and starting.exception() is None:
            await uninterrupted(Child(name, log, start, starting.result(), steps).stop())
        raise
    except OSError as error:
        raise StartError(f"{name} cannot be started: {error}.") from error
    finally:
        os.close(output)
    return Child(name, log, start, process, steps)


async def uninterrupted(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Finish short work that must not be left half done, then be cancelled if that was asked meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen, though the cancellation is what the caller hears of
        raise cancelled
    return task.result()


def _open_log(path: Path) -> int:
    if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
