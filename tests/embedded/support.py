"""What the tests of the embedded servers share: other processes, other users, and waiting for a condition."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

import codehub
from codehub.embedded import directory
from codehub.embedded.claim import Territory, inhabitants
from tests.lab.skips import reason
from tests.support import AS_ROOT, missing

T = TypeVar("T")

HOLDER = Path(__file__).with_name("holder.py")
SOURCE = Path(codehub.__file__).parents[1]
is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason=reason("root, who can become another user", AS_ROOT))


def postgres_pids(data: Path) -> list[int]:
    return inhabitants(Territory("PostgreSQL", data / "postgres", data, "postgres"))


def valkey_pids(data: Path) -> list[int]:
    return inhabitants(Territory("Valkey", data / "valkey", data, "valkey-server"))


def server_pids(data: Path) -> list[int]:
    return postgres_pids(data) + valkey_pids(data)


def processes_at(path: Path) -> list[str]:
    """The command lines of other processes that work in the folder or have its path as an argument."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = os.fsdecode((entry / "cmdline").read_bytes())
            if (str(path) in command or (entry / "cwd").readlink().is_relative_to(path)) and entry.name != str(
                os.getpid()
            ):
                found.append(command)
    return found


def of_each(pids: list[int], ask: Callable[[Path], T]) -> list[T]:
    """What the system says of each: `ask` is given its folder in /proc. Workers of a server's may have ended since."""
    found = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(ask(Path(f"/proc/{pid}")))
    assert found or not pids, "all of them have ended"
    return found


def owners_of(pids: list[int]) -> set[int]:
    return set(of_each(pids, lambda process: process.stat().st_uid))


def copy_of(data: Path, target: Path) -> Path:
    """A data directory like another one, owners and modes included; the programs, which never change, are shared.

    It does not know that it is a copy.
    """
    target.mkdir()
    shutil.copymode(data, target)
    parts = [str(part) for part in data.iterdir() if part.name not in ("runtime", directory.FILE)]
    subprocess.run(["cp", "-a", *parts, str(target)], check=True)
    (target / "runtime").symlink_to(data / "runtime")
    return target


def user_environment(python: str, home: Path) -> dict[str, str]:
    paths = [str(SOURCE)] if python == sys.executable else [str(SOURCE), sysconfig.get_path("purelib")]
    return {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


@cache
def python_of(user: str) -> str:
    """A Python that `user` can run and that finds our packages; skips where there is none."""
    candidates = [sys.executable, shutil.which("python3", path="/usr/bin") or sys.executable]
    for python in candidates:
        try:
            subprocess.run(
                [python, "-c", "import codehub.embedded"],
                check=True,
                capture_output=True,
                user=user,
                group=pwd.getpwnam(user).pw_gid,
                extra_groups=[],
                env=user_environment(python, Path("/")),
                cwd="/",
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return missing(
        f"a Python that {user} can run, with our packages",
        "make test PYTHON=/usr/bin/python3",
    )


class Holder:
    """Another CodeHub, as far as the servers go: `holder.py` in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def report(self) -> dict[str, Any]:
        """Its first report: the URLs once the servers run, or the error."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the holder said nothing"
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)

    def finish(self) -> None:
        """Let it stop in an orderly way."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


@contextmanager
def holding(
    data: Path,
    *,
    user: str | None = None,
    home: Path | None = None,
    mode: str = "servers",
    groups: Sequence[int] | None = None,
) -> Iterator[Holder]:
    python, environment = sys.executable, None
    credentials: dict[str, Any] = {"extra_groups": groups}
    if user:
        python = python_of(user)
        credentials = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        environment = user_environment(python, home or data.parent)
    process = subprocess.Popen(
        [python, str(HOLDER), mode, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env=environment,
        **credentials,
    )
    try:
        yield Holder(process)
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout):
            assert stream
            stream.close()
