"""What is different at a terminal: questions, a live line, tables that fit; and what a shell completes."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from tests.cli.codehub import environment
from tests.cli.site import Site, running_site
from tests.support import Databases

COLUMNS = 80
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis) as site:
        yield site


@pytest.fixture(scope="module")
def variables(site: Site) -> dict[str, str]:
    return environment(CODEHUB_URL=site.url, CODEHUB_TOKEN=site.token(), TERM="xterm", LC_ALL="C.UTF-8")


def at_a_terminal(variables: dict[str, str], *arguments: str, typed: str = "") -> tuple[int, str]:
    """Its exit code, and what is seen, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "codehub", *arguments]
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables)
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:  # the other end is closed: it has ended
        pass
    os.close(ours)
    return running.wait(60), _ESCAPES.sub("", seen.decode()).replace("\r\n", "\n")


def test_the_life_of_a_workspace_at_a_terminal(variables: dict[str, str]) -> None:
    name = "a rather long name for a workspace of somebody who likes to be exact about everything"
    code, seen = at_a_terminal(variables, "ws", "create", name, "--wait")
    assert code == 0, seen
    assert "a rather long name for a work…: PENDING, to be RUNNING 0:00:0" in seen, "a live line"
    code, seen = at_a_terminal(variables, "ws", "list")
    assert code == 0
    assert max(map(len, seen.splitlines())) <= COLUMNS, seen
    for answer, code in (("n\n", 1), ("\x04", 130), ("y\n", 0)):
        ended, seen = at_a_terminal(variables, "ws", "delete", name, typed=answer)
        assert ended == code, seen
    assert "can be undeleted for a while, then it is lost. Delete it?" in seen
    code, seen = at_a_terminal(variables, "ws", "delete", name, "--purge", typed="another name\n")
    assert (code, "CANNOT be undeleted" in seen) == (1, True), seen


def test_a_shell_completes_commands_and_workspaces(variables: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "codehub", "ws", "create", "complete-me", "--state", "archived"],
        env=variables, check=True, capture_output=True, timeout=60,
    )  # fmt: skip

    def offered(*words: str) -> str:
        asked = {"_CODEHUB_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        done = subprocess.run(
            [sys.executable, "-m", "codehub"], env={**variables, **asked}, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        return done.stdout

    assert "archive" in offered("codehub", "ws", "arch")
    assert "complete-me" in offered("codehub", "ws", "start", "comp")
    variables = {**variables, "CODEHUB_TOKEN": "wrong"}
    assert offered("codehub", "ws", "start", "comp").strip() == "", "and says nothing when it cannot ask"


def test_what_could_steer_a_terminal_or_a_shell_is_not_written(variables: dict[str, str]) -> None:
    name = "nic\u00e9$(touch-x)"
    made = json.loads(
        subprocess.run(
            [sys.executable, "-m", "codehub", "ws", "create", name, "--state", "archived", "--json"],
            env=variables, check=True, capture_output=True, timeout=60,
        ).stdout
    )  # fmt: skip
    assert made["name"] == name, "in a pipe it is as it is"
    code, seen = at_a_terminal(variables, "ws", "show", made["id"], "--json")
    assert (code, json.loads(seen)["name"]) == (0, name)
    assert r"nic\u00e9$(touch-x)" in seen
    code, seen = at_a_terminal(variables, "ws", "show", f"{name}\x1b]0;x\x07\x9b\N{RIGHT-TO-LEFT OVERRIDE}")
    assert code == 3
    assert not set(seen) & {"\N{RIGHT-TO-LEFT OVERRIDE}", "\x1b", "\x07", "\x9b"}
    asked = {"_CODEHUB_COMPLETE": "complete_bash", "COMP_WORDS": "codehub ws start ", "COMP_CWORD": "3"}
    offered = subprocess.run(
        [sys.executable, "-m", "codehub"], env={**variables, **asked}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert made["id"] in offered.stdout.split()
    assert "touch-x" not in offered.stdout


def test_a_command_that_is_interrupted(variables: dict[str, str], site: Site) -> None:
    outage = site.world.engine_out()
    command = [sys.executable, "-m", "codehub", "ws", "create", "slow", "--wait", "--json"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("slow: "), "it waits"
        running.send_signal(2)
        try:
            assert running.wait(20) == 130
        finally:
            running.kill()
        assert "Traceback" not in running.stderr.read()
    site.loop.call_soon_threadsafe(site.world.engine_back, outage)


def test_without_events_it_looks_by_itself(site: Site, variables: dict[str, str]) -> None:
    """An administrator hears nothing of other people's workspaces."""
    made = subprocess.run(
        [sys.executable, "-m", "codehub", "ws", "create", "hers", "--state", "archived", "--json"],
        env=variables, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    identity = json.loads(made.stdout)["id"]
    done = subprocess.run(
        [sys.executable, "-m", "codehub", "ws", "restore", identity, "--wait", "--timeout", "40"],
        env={**variables, "CODEHUB_TOKEN": site.token("root")},
        check=False, capture_output=True, timeout=60, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "hers is stopped.\n"), done.stderr
