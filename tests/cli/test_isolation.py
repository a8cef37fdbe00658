"""What a person is told about isolation, and about mending it."""

import itertools
from pathlib import Path

import pytest

from codehub.cli.isolation import described
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.machine import Machine, Options
from codehub.web.health import DependencyState

UP = {"process": DependencyState(up=True), "docker": DependencyState(up=True)}


def lines_of(machine: Machine) -> list[str]:
    return list(described({"process": machine.isolation()}, UP))


def follows(lines: list[str], said: str, advice: str) -> bool:
    return any(said in one and advice in other for one, other in itertools.pairwise(lines))


@pytest.mark.parametrize(
    ("path", "sandbox", "said", "advice"),
    [
        ("/nowhere", "auto", "bubblewrap (bwrap) is not installed", "apt install bubblewrap"),
        (None, "off", "it is switched off", "Remove PROCESS_SANDBOX=off"),
    ],
)
def test_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str | None, sandbox: str, said: str, advice: str
) -> None:
    if path:
        monkeypatch.setenv("PATH", path)
    options = Options(root=tmp_path, sandbox="off" if sandbox == "off" else "auto", cgroup=tmp_path / "no-cgroup")
    machine = Machine(options, Layout(tmp_path))
    machine.layout.prepare()
    machine.find_out()
    assert follows(lines_of(machine), said, advice)


def test_a_sandbox_that_fails_here(tmp_path: Path) -> None:
    machine = Machine(Options(root=tmp_path, bwrap="/bin/false"), Layout(tmp_path))
    machine.layout.prepare()
    machine.find_out()
    assert follows(lines_of(machine), "it was tried and failed", "user namespaces")


def test_a_network_that_is_shared(tmp_path: Path) -> None:
    machine = Machine(Options(root=tmp_path, network="host"), Layout(tmp_path))
    machine.bwrap = "bwrap"
    assert follows(lines_of(machine), "share this machine's network", "Remove PROCESS_NETWORK=host")


def test_not_being_root(tmp_path: Path) -> None:
    machine = Machine(Options(root=tmp_path), Layout(tmp_path))
    machine.is_root = False
    assert follows(lines_of(machine), "run as your own user", "Run CodeHub as root")
    assert follows(lines_of(machine), "there is no cgroup v2", "cgroup v2")


def test_a_backend_that_is_out_promises_nothing() -> None:
    states = {"docker": DependencyState(up=False, detail="The engine does not answer.")}
    lines = list(described({"docker": ["Workspaces are well apart."]}, states))
    assert "Workspaces are well apart." not in "".join(lines)
    assert "docker does not work yet: The engine does not answer." in lines[1]


def test_what_holds_is_said_without_advice() -> None:
    assert list(described({"process": ["All is well."]}, UP))[1:] == ["  All is well."]
