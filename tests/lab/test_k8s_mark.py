"""k8s.sh makes a cluster, and removes one, only where nobody else has one: shown on a folder that stands for a machine.

Nothing of the real machine is asked or changed: what would do so is replaced by programs that do nothing.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.k8s import SCRIPT
from tests.support import missing

TOUCHED = "nothing was touched"
WENT_ON = "it went on to make its programs"
_HARMLESS = (
    "umount",
    "ip",
    "xargs",
    "pgrep",
    "iptables-save",
    "ip6tables-save",
    "iptables-restore",
    "ip6tables-restore",
)


@dataclass(frozen=True)
class Machine:
    folder: Path
    lab: Path
    programs: Path

    def run(self, verb: str) -> tuple[int, str]:
        """Its exit code, and what it said."""
        path = f"{self.programs}:{os.environ['PATH']}"
        given = {"PATH": path, "CODEHUB_LAB_DIR": str(self.lab), "CODEHUB_LAB_MACHINE": str(self.folder)}
        done = subprocess.run([str(SCRIPT), verb], check=False, capture_output=True, text=True, timeout=60, env=given)
        return done.returncode, done.stderr

    def put(self, path: str) -> Path:
        """Something that a cluster makes."""
        made = self.folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("of value")
        return made

    def answer(self, program: str, text: str) -> None:
        """What this program says from now on."""
        (self.programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / program).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if os.geteuid() != 0:
        missing("root: nobody else can start a cluster")
    made = Machine(tmp_path / "machine", tmp_path / "lab", tmp_path / "programs")
    made.programs.mkdir()
    for folder in ("proc", "sys/fs/cgroup", "run/netns"):
        (made.folder / folder).mkdir(parents=True)
    (made.folder / "proc/mounts").touch()
    for program in _HARMLESS:
        made.answer(program, ":")
    made.answer("nice", f"echo {WENT_ON} >&2; exit 1")
    return made


SOMEBODYS = ("var/lib/kubelet/pods/a", "var/lib/cni/a", "run/netns/cni-a", "sys/fs/cgroup/cpu/kubepods/a")


@pytest.mark.parametrize("path", SOMEBODYS)
def test_what_was_there_before_stays(machine: Machine, path: str) -> None:
    theirs = machine.put(path)
    code, said = machine.run("up")
    assert (code, TOUCHED in said, len(said.splitlines())) == (1, True, 1), said
    assert machine.run("down") == (0, "")
    assert machine.run("wipe") == (0, "")
    assert theirs.read_text() == "of value"


def test_the_firewall_of_somebody_stays(machine: Machine) -> None:
    machine.answer("iptables-save", "echo ':KUBE-SERVICES - [0:0]'")
    machine.answer("iptables-restore", f"echo changed >{machine.folder}/firewall")
    code, said = machine.run("up")
    assert (code, TOUCHED in said) == (1, True), said
    assert machine.run("down") == (0, "")
    assert not (machine.folder / "firewall").exists()


def test_what_came_after_we_began_is_ours_and_goes(machine: Machine) -> None:
    code, said = machine.run("up")
    assert (code, said.strip()) == (1, WENT_ON)
    ours = machine.put("var/lib/kubelet/pods/a")
    assert machine.run("up")[1].strip() == WENT_ON
    assert machine.run("down") == (0, "")
    assert not ours.parents[1].exists()
    theirs = machine.put("var/lib/kubelet/pods/a")
    assert machine.run("down") == (0, "")
    assert theirs.exists()


def test_a_kubelet_that_somebody_started_meanwhile_ends_our_claim(machine: Machine) -> None:
    machine.run("up")
    theirs = machine.put("var/lib/kubelet/pods/a")
    machine.answer("pgrep", f"echo {os.getpid()}")
    for verb in ("up", "down", "wipe"):
        code, said = machine.run(verb)
        assert (code, TOUCHED in said) == (1, True), said
    assert theirs.exists()
