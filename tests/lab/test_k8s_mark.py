"""k8s.sh makes a cluster, and removes one, only where nobody else has one: shown on a folder that stands for a machine.

Nothing of the real machine is asked or changed: what would do so is replaced by programs that do nothing.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.lab.k8s import SCRIPT
from tests.support import needs_root

pytestmark = pytest.mark.exhaustive

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

    def run(self, verb: str, owner: str = "", path: str = os.environ["PATH"], waits: int = 0) -> tuple[int, str]:
        """Its exit code, and what it said."""
        given = {"PATH": f"{self.programs}:{path}", "CODEHUB_LAB_DIR": str(self.lab), "CODEHUB_LAB_WAIT": str(waits)}
        given |= {"CODEHUB_LAB_MACHINE": str(self.folder), "CODEHUB_LAB_OWNER": owner}
        done = subprocess.run([str(SCRIPT), verb], check=False, capture_output=True, text=True, timeout=60, env=given)
        return done.returncode, done.stderr

    def put(self, path: str) -> Path:
        """Something that a cluster makes."""
        made = self.folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("of value")
        return made

    def boot(self) -> None:
        """It is started anew."""
        told = self.folder / "proc/sys/kernel/random/boot_id"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f"{uuid4()}\n")

    def answer(self, program: str, text: str) -> None:
        """What this program says from now on."""
        (self.programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / program).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    needs_root("who alone can start a cluster")
    made = Machine(tmp_path / "machine", tmp_path / "lab", tmp_path / "programs")
    made.programs.mkdir()
    for folder in ("proc", "sys/fs/cgroup", "run/netns"):
        (made.folder / folder).mkdir(parents=True)
    (made.folder / "proc/mounts").touch()
    made.boot()
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


OTHERS = ("var/lib/rancher/k3s/a", "var/snap/microk8s/a", "var/lib/k0s/a", "usr/lib/systemd/system/kubelet.service")


@pytest.mark.parametrize("path", OTHERS)
def test_a_cluster_that_somebody_installed_meanwhile_ends_our_claim(machine: Machine, path: str) -> None:
    machine.run("up")
    theirs = machine.put("var/lib/kubelet/pods/a")
    machine.put(path)
    for verb in ("up", "down", "wipe"):
        code, said = machine.run(verb)
        assert (code, TOUCHED in said) == (1, True), said
    assert theirs.exists()


@pytest.mark.parametrize("verb", ["up", "down", "wipe"])
def test_after_a_boot_only_what_has_our_name_goes(machine: Machine, verb: str) -> None:
    machine.run("up")
    ours, theirs = machine.put("tmp/codehub-lab-pv/a"), machine.put("var/lib/kubelet/pods/a")
    machine.boot()
    code, said = machine.run(verb)
    assert (code, TOUCHED in said) == (1 if verb == "up" else 0, True), said
    assert theirs.exists()
    assert not ours.parent.exists()
    assert not (machine.lab / "k8s/run").exists()
    assert machine.run("down") == (0, "")
    assert theirs.exists()


@pytest.mark.parametrize("owner", [str(os.getppid()), ""], ids=["another run", "a person"])
def test_a_cluster_of_a_living_owner_is_nobody_else_s_to_use_or_to_take_down(machine: Machine, owner: str) -> None:
    living = str(os.getpid())
    machine.run("up", owner=living)
    ours = machine.put("var/lib/kubelet/pods/a")
    code, said = machine.run("up", owner=owner)
    assert (code, f"process {living} has the cluster" in said, len(said.splitlines())) == (1, True, 1), said
    if owner:
        code, said = machine.run("down", owner=owner)
        assert (code, "it stays" in said) == (0, True)
    assert ours.exists()
    assert machine.run("up", owner=living)[1].strip() == WENT_ON
    assert machine.run("down", owner=living) == (0, "")
    assert not ours.exists()


@pytest.mark.parametrize("ends", ["down", "death"])
def test_the_second_of_two_runs_has_its_turn_when_the_first_has_ended(machine: Machine, ends: str) -> None:
    with subprocess.Popen(["sleep", "600"]) as first, ThreadPoolExecutor(1) as pool:
        try:
            machine.run("up", owner=str(first.pid))
            waiting = pool.submit(machine.run, "up", owner=str(os.getpid()), waits=50)
            with pytest.raises(TimeoutError):
                waiting.result(2)
            if ends == "down":
                assert machine.run("down", owner=str(first.pid)) == (0, "")
            else:
                first.kill()  # not waited for yet: it is a zombie, which has no cluster
            code, said = waiting.result(50)
        finally:
            first.kill()
    assert (code, WENT_ON in said, f"waits for the cluster of process {first.pid}" in said) == (1, True, True), said
    assert machine.run("down", owner=str(os.getpid())) == (0, ""), "it is the second one's now"


def test_what_a_person_keeps_up_stays_and_what_the_dead_left_is_taken_over(machine: Machine) -> None:
    mine = str(os.getpid())
    machine.run("up")
    ours = machine.put("var/lib/kubelet/pods/a")
    machine.run("up", owner=mine)
    machine.run("down", owner=mine)
    assert ours.exists()
    assert machine.run("down") == (0, "")
    machine.run("up", owner="999999999")
    ours = machine.put("var/lib/kubelet/pods/a")
    machine.run("up", owner=mine)
    assert machine.run("down", owner=mine) == (0, "")
    assert not ours.exists()


def test_whoever_has_a_dead_owner_s_number_now_is_not_waited_for(machine: Machine) -> None:
    machine.run("up", owner=str(os.getppid()))
    mark = machine.lab / "k8s" / "everything-outside-is-ours"
    boot, owner, born = mark.read_text().split()
    mark.write_text(f"{boot}\n{owner}\n{int(born) - 1}\n")
    assert machine.run("up", owner=str(os.getpid()))[1].strip() == WENT_ON
    assert machine.run("down", owner=str(os.getpid())) == (0, "")


@pytest.mark.parametrize("program", ["ip", "pgrep", "ps", "openssl"])
def test_a_program_that_is_missing_is_named_before_anything_is_touched(
    machine: Machine, program: str, tmp_path: Path
) -> None:
    machine.run("up")
    ours = machine.put("var/lib/kubelet/pods/a")
    bare = tmp_path / "bare"
    bare.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for found in Path(folder).glob("*"):
            if found.name != program and not (bare / found.name).exists():
                (bare / found.name).symlink_to(found)
    (machine.programs / program).unlink(missing_ok=True)
    for verb in ("up", "down"):
        code, said = machine.run(verb, path=str(bare))
        assert (code, f"{program} is missing: install" in said, len(said.splitlines())) == (1, True, 1), said
    assert ours.exists()
