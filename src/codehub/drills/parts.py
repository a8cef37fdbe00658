"""The parts of an installation that can be killed from this machine, and how each is killed.

Embedded servers are found by the folder that they work in; other processes of CodeHub by their command line and the
database that they were given. Whatever else there is (containers, pods) is killed by a command that the user gives.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codehub.embedded.claim import Territory, inhabitants
from codehub.errors import StartError

_COMMAND_SECONDS = 60
_ROLES = ("coordinator", "api", "proxy")


@dataclass(frozen=True, slots=True)
class Part:
    """`kill` returns when it was told to die; `living` says who does its work now, if that can be seen from here."""

    name: str
    kill: Callable[[], None]
    living: Callable[[], Sequence[int]] | None = None


def embedded_parts(data_dir: Path) -> list[Part]:
    found = []
    for name, folder, program in (("postgresql", "postgres", "postgres"), ("valkey", "valkey", "valkey-server")):
        territory = Territory(name, data_dir / folder, data_dir / f"{folder}.lock", program)
        if inhabitants(territory):
            found.append(_part(name, partial(inhabitants, territory), min))
    return found


def process_parts(database_url: str | None, leader_pid: Callable[[], int | None]) -> list[Part]:
    """The processes of this machine that use that database: one of each role, of coordinators the one that leads."""

    def leader_of(living: Sequence[int]) -> int:
        leader = leader_pid()
        return leader if leader is not None and leader in living else min(living)

    found = []
    for role in _ROLES if database_url is not None else ():
        if _processes(role, database_url):
            name, choose = ("coordinator (leader)", leader_of) if role == "coordinator" else (role, min)
            found.append(_part(name, partial(_processes, role, database_url), choose))
    return found


def _part(name: str, living: Callable[[], Sequence[int]], choose: Callable[[Sequence[int]], int]) -> Part:
    def kill() -> None:
        pids = living()
        if not pids:
            raise StartError(f"No {name} of this installation runs here any more.")
        with suppress(ProcessLookupError):
            os.kill(choose(pids), signal.SIGKILL)

    return Part(name, kill, living)


def given_part(text: str) -> Part:
    """`NAME=COMMAND`."""
    name, equals, command = text.partition("=")
    words = shlex.split(command) if equals else []
    if not name.strip() or not words:
        raise StartError(f"--kill {text!r} is not NAME=COMMAND.", "For example: --kill 'api=docker kill codehub-api-1'")

    def kill() -> None:
        try:
            done = subprocess.run(  # noqa: S603 - what the user asks for
                words, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartError(f"{command} cannot be run: {error}.") from error
        if done.returncode != 0:
            raise StartError(f"{command} failed: {' '.join(done.stderr.split())[:200]}")

    return Part(name.strip(), kill)


def _processes(role: str, database_url: str | None) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or somebody else's
            words = [os.fsdecode(word) for word in (entry / "cmdline").read_bytes().split(b"\0") if word]
            if role not in words[1:] or not any(Path(word).name == "codehub" for word in words):
                continue
            wanted = b"DATABASE_URL=" + os.fsencode(database_url or "")
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return sorted(found)
