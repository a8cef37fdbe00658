"""The parts of an installation as processes of their own, of this tree's version or of another's, on real servers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from codehub.client import Client
from tests.cli.codehub import environment
from tests.crash.site import IMAGE, Processes
from tests.support import eventually, free_port

PASSWORD = "correct horse battery"
STARTED = re.compile(r"is running")
_START_SECONDS = 90.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Version:
    """Some CodeHub; `source` is the folder its package is in, None that of this tree."""

    name: str
    source: Path | None = None

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        return environment(**given, **({"PYTHONPATH": str(self.source)} if self.source else {}))

    def run(self, *arguments: str, **given: str) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        command = [sys.executable, "-m", "codehub", *arguments]
        env = self.environment(given)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False, cwd="/")


TODAY = Version("today")


@dataclass
class Part:
    """One process."""

    name: str
    process: "subprocess.Popen[bytes]"
    output: Path
    url: str = ""

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def is_ready(self) -> "Part":
        eventually(lambda: bool(STARTED.search(self.said)) or not self.lives, f"{self.name} runs", _START_SECONDS)
        assert self.lives, self.said
        return self

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        return self.process.wait(_STOP_SECONDS)

    def stop(self) -> None:
        """In order."""
        self.signal(signal.SIGTERM)
        assert self.ended() == 0, self.said


@dataclass
class Installation:
    """Servers that are there already, and whatever parts were started on them."""

    folder: Path
    database: str
    redis: str
    settings: Mapping[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.database,
            "REDIS_URL": self.redis,
            "CODEHUB_DATA_DIR": str(self.folder / "d"),
            "CODEHUB_ADMIN_PASSWORD": PASSWORD,
            "CODEHUB_LOG_FORMAT": "json",
            "CODEHUB_BACKENDS": "process",
            "CODEHUB_IMAGES": IMAGE,
            "COORDINATOR_IDLE_INTERVAL": "1",
            "COORDINATOR_ACTIVE_INTERVAL": "0.2",
            **self.settings,
        }

    def start(self, command: str, version: Version = TODAY, **more: str) -> Part:
        """`codehub COMMAND`; that it runs is awaited by `is_ready`."""
        name = f"{command}-{next(self._numbers)}-{version.name}"
        output = self.folder / f"{name}.log"
        given = {**self.environment, "CODEHUB_PORT": str(free_port()), **more}
        with output.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "codehub", command],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=version.environment(given),
                cwd="/",
                start_new_session=True,
            )
        part = Part(name, process, output, f"http://127.0.0.1:{given['CODEHUB_PORT']}")
        self.parts.append(part)
        return part

    def leadership(self) -> tuple[int, str]:
        """The epoch, and who leads or led last: `host:pid`."""
        with psycopg.connect(self.database) as conn:
            row = conn.execute("SELECT epoch, holder FROM leadership").fetchone()
        assert row is not None
        return int(row[0]), str(row[1])

    def leads(self, part: Part) -> bool:
        return self.leadership()[1].endswith(f":{part.process.pid}")

    @contextmanager
    def client(self, url: str) -> Iterator[Client]:
        """Of the administrator."""
        with Client(url) as client:
            client.login("admin", PASSWORD)
            yield client


@contextmanager
def installation(folder: Path, database: str, redis: str, **settings: str) -> Iterator[Installation]:
    """Where workspaces are processes of this machine; at the end nothing is left of it."""
    (folder / "d").mkdir(mode=0o755)
    place = Processes(folder / "d", 0)
    here = Installation(folder, database, redis, {**place.environment, **settings})
    try:
        yield here
    finally:
        for part in here.parts:
            with suppress(ProcessLookupError):
                os.killpg(part.process.pid, signal.SIGKILL)
            part.process.wait()
        place.close()
