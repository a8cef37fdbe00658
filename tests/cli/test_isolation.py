"""What a person is told about isolation, and about mending it."""

from pathlib import Path

import pytest

from codehub.cli.isolation import warnings
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.machine import Machine, Options
from codehub.web.health import DependencyState

UP = {"process": DependencyState(up=True), "docker": DependencyState(up=True)}


def warnings_of(machine: Machine) -> list[str]:
    return list(warnings({"process": machine.isolation()}, UP))


def one_says(lines: list[str], means: str, advice: str) -> bool:
    return len([line for line in lines if means in line and advice in line]) == 1


@pytest.mark.parametrize(
    ("path", "sandbox", "advice"),
    [
        ("/nowhere", "auto", "apt install bubblewrap"),
        (None, "off", "Remove PROCESS_SANDBOX=off"),
    ],
)
def test_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str | None, sandbox: str, advice: str
) -> None:
    if path:
        monkeypatch.setenv("PATH", path)
    options = Options(root=tmp_path, sandbox="off" if sandbox == "off" else "auto", cgroup=tmp_path / "no-cgroup")
    machine = Machine(options, Layout(tmp_path))
    machine.layout.prepare()
    machine.find_out()
    lines = warnings_of(machine)
    assert one_says(lines, "without a sandbox: they can see this machine's files", advice)
    assert len([line for line in lines if "sandbox" in line]) == 1, "once"


def test_a_sandbox_that_fails_here(tmp_path: Path) -> None:
    machine = Machine(Options(root=tmp_path, bwrap="/bin/false"), Layout(tmp_path))
    machine.layout.prepare()
    machine.find_out()
    assert one_says(warnings_of(machine), "Workspaces run without a sandbox", "user namespaces")


def test_a_network_that_is_shared(tmp_path: Path) -> None:
    machine = Machine(Options(root=tmp_path, network="host"), Layout(tmp_path))
    machine.bwrap = "bwrap"
    assert one_says(warnings_of(machine), "share this machine's network", "Remove PROCESS_NETWORK=host")


def test_not_being_root(tmp_path: Path) -> None:
    machine = Machine(Options(root=tmp_path), Layout(tmp_path))
    machine.is_root = False
    assert one_says(warnings_of(machine), "run as your own user", "Run CodeHub as root")
    assert one_says(warnings_of(machine), "all processors and memory", "cgroup v2")


def test_a_backend_that_is_out_promises_nothing() -> None:
    states = {"docker": DependencyState(up=False, detail="The engine does not answer.")}
    (line,) = warnings({"docker": ["WARNING: Workspaces are NOT isolated."]}, states)
    assert line.startswith("The backend docker does not work yet: The engine does not answer.")


def test_what_holds_is_not_said() -> None:
    assert list(warnings({"process": ["All is well."]}, UP)) == []


def test_a_warning_that_is_not_known_is_said_as_it_is() -> None:
    assert list(warnings({"process": ["WARNING: something else is weak."]}, UP)) == ["Something else is weak."]
