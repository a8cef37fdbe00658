"""What the tests of the embedded servers share: other processes, other users, and waiting for a condition."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import codehub
from codehub.embedded.claim import Territory, inhabitants

HOLDER = Path(__file__).with_name("holder.py")
SOURCE = Path(codehub.__file__).parents[1]
is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="only root can become another user")


def eventually(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def postgres_pids(data: Path) -> list[int]:
    return inhabitants(Territory("PostgreSQL", data / "postgres", data, "postgres"))


def valkey_pids(data: Path) -> list[int]:
    return inhabitants(Territory("Valkey", data / "valkey", data, "valkey-server"))


def server_pids(data: Path) -> list[int]:
    return postgres_pids(data) + valkey_pids(data)


def owners_of(pids: list[int]) -> set[int]:
    return {Path(f"/proc/{pid}").stat().st_uid for pid in pids}


def copy_of(data: Path, target: Path) -> Path:
    """A data directory like another one, owners and modes included; the programs, which never change, are shared."""
    target.mkdir()
    shutil.copymode(data, target)
    parts = [str(part) for part in data.iterdir() if part.name != "runtime"]
    subprocess.run(["cp", "-a", *parts, str(target)], check=True)
    (target / "runtime").symlink_to(data / "runtime")
    return target


def user_environment(python: str, home: Path) -> dict[str, str]:
    paths = [str(SOURCE)] if python == sys.executable else [str(SOURCE), sysconfig.get_path("purelib")]
    return {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def python_of(user: str, home: Path) -> str:
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
                env=user_environment(python, home),
                cwd="/",
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip(f"no Python of {candidates} is usable by {user} with our packages")


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
    data: Path, *, user: str | None = None, home: Path | None = None, mode: str = "servers"
) -> Iterator[Holder]:
    python, credentials, environment = sys.executable, {}, None
    if user:
        python = python_of(user, home or data.parent)
        credentials = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        environment = user_environment(python, home or data.parent)
    process = subprocess.Popen(
        [python, str(HOLDER), mode, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env=environment,
        **credentials,  # type: ignore[call-overload]
    )
    try:
        yield Holder(process)
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout):
            stream.close()
