"""`codehub` as a user runs it: in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from codehub.cli.first_admin import KEPT_IN
from codehub.config import setting_names
from codehub.embedded.accounts import server_account
from tests.embedded.prepared import prepared
from tests.support import eventually, workspace_users

STARTED = re.compile(r"URL +(http://\S+)")


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in setting_names()}
    # No account is made on the machine that tests run on; where that is tested, /etc is another one.
    account = {"CODEHUB_EMBEDDED_USER": server_account(None).name} if os.geteuid() == 0 else {}
    return {**kept, **account, **given}


def _users() -> dict[str, str]:
    users = workspace_users()
    return {"PROCESS_USERS": f"{users.start}-{users.stop - 1}"}


class Codehub:
    """A running `codehub up`; what it prints goes to a file, as a pipe that nobody reads would stop it."""

    def __init__(self, data: Path, output: Path, *options: str, before: Sequence[str] = (), **settings: str) -> None:
        self.data = data
        self.output = output
        # The tiny workspace: what people get would be downloaded first.
        given = {"CODEHUB_DATA_DIR": str(data), "CODEHUB_PORT": "0", "CODEHUB_IMAGES": "test", **_users(), **settings}
        with output.open("wb") as out:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "codehub", "up", *options],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=environment(**given),
                start_new_session=True,
            )

    @property
    def printed(self) -> str:
        return self.output.read_text()

    @property
    def url(self) -> str:
        """The URL it printed; waits for it."""
        eventually(lambda: bool(STARTED.search(self.printed)) or self.process.poll() is not None, "a URL", 60)
        found = STARTED.search(self.printed)
        assert found, self.printed
        return found[1]

    @property
    def password(self) -> str:
        """The first administrator's; in a file, since this is no terminal."""
        return (self.data / KEPT_IN).read_text().strip()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(self.url.rstrip("/") + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_ready(self) -> bool:
        with suppress(URLError, OSError):
            return self.get("/readyz")[0] == 200
        return False

    def dependencies(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads(self.get("/readyz")[1])["dependencies"]
        return found

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


@contextmanager
def running(data: Path, output: Path, *options: str, before: Sequence[str] = (), **settings: str) -> Iterator[Codehub]:
    """On data that is there; otherwise on a copy of servers that were prepared once for all."""
    if not data.exists() and "DATABASE_URL" not in settings:
        prepared(data)
    with running_from_nothing(data, output, *options, before=before, **settings) as codehub:
        yield codehub


@contextmanager
def running_from_nothing(
    data: Path, output: Path, *options: str, before: Sequence[str] = (), **settings: str
) -> Iterator[Codehub]:
    """Unless there is data; `before` goes before the command."""
    codehub = Codehub(data, output, *options, before=before, **settings)
    try:
        yield codehub
    finally:
        if codehub.process.poll() is None:
            codehub.process.terminate()
            codehub.process.wait(30)


def failing(*arguments: str, **settings: str) -> tuple[int, list[str]]:
    """Run a command that ends by itself: its exit code and what it told people on standard error, beside its log."""
    done = subprocess.run(
        [sys.executable, "-m", "codehub", *arguments],
        env=environment(**{"CODEHUB_IMAGES": "test", **settings}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("{")]
