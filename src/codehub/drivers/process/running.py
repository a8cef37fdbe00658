"""Runs an installer: its lines as they come, stopped when asked to, nothing left behind, failures in plain words.

It is run apart (apart.py), and told what it needs alone (installer_environment.py).
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from codehub.drivers.process import apart, identity
from codehub.drivers.process.installer_environment import base_environment, fetching_environment
from codehub.errors import StartError

Progress = Callable[[str], None]

_POLL_SECONDS = 0.1
_KEPT_LINES = 40
_END_SECONDS = 15.0
_PREFIX = re.compile("^(error|cause|hint): ")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")  # of a package registry
_NO_ROOM = re.compile(r"ENOSPC|EDQUOT|No space left|Disk quota exceeded|os error 28\b", re.IGNORECASE)
_NO_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|dns error|failed to lookup"
    r"|error sending request|client error \(Connect\)|Connection refused|network is unreachable|operation timed out",
    re.IGNORECASE,
)
# Of uv and of npm.
_REFUSED = re.compile(
    r"HTTP status \w+ error \(\d{3}|40[13] (Unauthorized|Forbidden)|was not found in the package registry|code E4\d\d"
)


@dataclass(frozen=True, slots=True)
class Installer:
    """How programs are run for one installation."""

    progress: Progress
    stop: threading.Event
    needs_bytes: int
    home: Path = Path("/nonexistent")
    given: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """What of the environment it is told is chosen from."""
    lock: int | None = None
    """A descriptor that whatever it starts keeps open: what outlives a kill of ours still holds the lock."""
    user: int | None = None
    """As root: a user id that nothing else runs under."""

    def run(
        self, command: Sequence[str], shown: Callable[[str], str | None], more: Mapping[str, str],
        *, fetches: bool = False, folder: Path = Path("/"),
    ) -> None:  # fmt: skip
        """Raises StartError if it fails or is stopped. `shown` says what of a line is worth telling, if anything.

        What `fetches` has a network and is told how packages are reached, and must run nothing of them. All else of a
        user of its own has none.
        """
        lines: list[str] = []
        environment = (fetching_environment if fetches else base_environment)(self.given, self.home)
        try:
            process = subprocess.Popen(  # noqa: S603
                self._apart(command, is_offline=self.user is not None and not fetches), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**environment, **more}, umask=0o022, cwd=folder,
                start_new_session=True, pass_fds=() if self.lock is None else (self.lock,),
            )  # fmt: skip
        except OSError as error:
            raise StartError(f"{command[0]} cannot be run: {error.strerror}.") from error
        try:
            for line in self._lines(process):
                lines = [*lines[1 - _KEPT_LINES :], line]
                if told := shown(line):
                    self.progress(told)
            process.wait()
        finally:
            with suppress(ProcessLookupError):  # whatever it started goes with it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._end_its_user()
            assert process.stdout is not None
            process.stdout.close()
        if process.returncode != 0:
            raise explained(Path(command[0]).name, lines, self.needs_bytes)

    def _apart(self, command: Sequence[str], *, is_offline: bool) -> list[str]:
        user = "-" if self.user is None else str(self.user)
        return [sys.executable, "-I", "-S", "-B", apart.__file__, user, "offline" if is_offline else "online", *command]

    def _end_its_user(self) -> None:
        """Also what has left its session."""
        if self.user is None:
            return
        until = time.monotonic() + _END_SECONDS
        while any(self.user in identity.users_of(found.pid) for found in identity.everything()):
            if time.monotonic() > until:
                raise StartError("An installer cannot be ended.", f"End what runs as user {self.user}.")
            subprocess.run(self._apart([], is_offline=True), check=False)  # noqa: S603

    def _lines(self, process: "subprocess.Popen[bytes]") -> Iterator[str]:
        assert process.stdout is not None
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if self.stop.is_set():
                    raise StartError("The installation was stopped.")
                if not selector.select(_POLL_SECONDS):
                    if process.poll() is not None:  # something it started holds on to its output
                        break
                    continue
                block = os.read(process.stdout.fileno(), 65536)
                *whole, rest = (rest + block).split(b"\n")
                yield from (text for line in whole if (text := line.decode(errors="replace").strip()))
                if not block:
                    break
        if text := rest.decode(errors="replace").strip():
            yield text


def explained(program: str, lines: Sequence[str], needs_bytes: int) -> StartError:
    """What the last lines of a program that failed mean to a person."""
    for line in lines:
        if _NO_ROOM.search(line):
            return no_room(needs_bytes)
    for line in lines:
        if _NO_NETWORK.search(line):
            return StartError(
                f"It cannot be downloaded: {_short(line)}.",
                "Check this machine's network (behind a proxy: HTTPS_PROXY) and try again.",
            )
    for line in reversed(lines):
        if _REFUSED.search(line):
            return StartError(
                f"The package index answers, but does not give it: {_short(line)}.",
                "Check the index that uv asks (UV_DEFAULT_INDEX) or npm's registry, and the password for it.",
            )
    return StartError(f"{program} failed: {_short(' '.join(lines[-3:])) or 'it said nothing'}.")


def no_room(needs_bytes: int) -> StartError:
    return StartError("There is not enough room on the disk.", f"Make {needs_bytes >> 20} MB free and try again.")


def _short(text: str) -> str:
    return _CREDENTIALS.sub("***@", _PREFIX.sub("", text).rstrip("."))[:300]
