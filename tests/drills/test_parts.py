"""Which processes the chaos drill kills: this installation's, and no others."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from codehub.drills.parts import given_part, process_parts
from codehub.errors import StartError
from tests.support import eventually

OURS, THEIRS = "postgresql://drill@/ours", "postgresql://drill@/theirs"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def process(stack: ExitStack, role: str, database: str) -> "subprocess.Popen[str]":
    """One that looks like `codehub ROLE`."""
    found = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()", "codehub", role],
            env={**os.environ, "DATABASE_URL": database},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(found.kill)
    assert found.stdout
    found.stdout.readline()
    return found


def test_the_leader_goes_and_other_installations_stay(stack: ExitStack) -> None:
    standby, leader = process(stack, "coordinator", OURS), process(stack, "coordinator", OURS)
    api, other = process(stack, "api", OURS), process(stack, "coordinator", THEIRS)
    parts = {part.name: part for part in process_parts(OURS, lambda: leader.pid)}
    assert list(parts) == ["coordinator (leader)", "api"]
    parts["coordinator (leader)"].kill()
    assert leader.wait(10) == -9
    eventually(lambda: list(parts["coordinator (leader)"].living()) == [standby.pid], "one is left")  # type: ignore[misc]
    assert [one.poll() for one in (standby, api, other)] == [None] * 3
    parts["api"].kill()
    assert api.wait(10) == -9
    eventually(lambda: list(parts["api"].living()) == [], "none is left")  # type: ignore[misc]
    with pytest.raises(StartError, match="runs here any more"):
        parts["api"].kill()


def test_no_database_no_processes() -> None:
    assert process_parts(None, lambda: None) == []


def test_a_command_of_the_users_own(tmp_path: Path) -> None:
    part = given_part(f"api=touch {tmp_path / 'killed'}")
    part.kill()
    assert (part.name, (tmp_path / "killed").exists(), part.living) == ("api", True, None)
    with pytest.raises(StartError, match="failed"):
        given_part("x=false").kill()
    with pytest.raises(StartError, match="cannot be run"):
        given_part("x=/nowhere/at/all").kill()
