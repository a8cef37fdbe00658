"""What a person is told about isolation, and about mending it."""

from pathlib import Path

import pytest

from codehub.cli.isolation import warnings
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.machine import Machine, Options
from codehub.model.workspace import InstanceBackend
from codehub.services.doctor.promises import judged
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


def broken_promises(machine: Machine) -> set[str]:
    """By what `codehub doctor --security` says of it."""
    judgements = judged(InstanceBackend.PROCESS, machine.isolation())
    return {promise.text for promise, broken in judgements if broken is not None}


FULL_DISK, KILLED_FIRST = "the database does not meet a full disk", "memory that runs out ends it before CodeHub"
NO_KEY = "no key of whoever started CodeHub, and no channel by keyrings"


@pytest.mark.parametrize(("reserve", "is_broken"), [(0, True), (1, False), (None, False)])
def test_without_a_reserve_the_disk_may_be_full(tmp_path: Path, reserve: int | None, *, is_broken: bool) -> None:
    machine = Machine(Options(root=tmp_path, reserve=reserve), Layout(tmp_path))
    assert (FULL_DISK in broken_promises(machine)) is is_broken


@pytest.mark.parametrize("is_final", [True, False])
def test_whoever_may_lower_its_score_is_not_surely_killed_first(tmp_path: Path, *, is_final: bool) -> None:
    machine = Machine(Options(root=tmp_path), Layout(tmp_path))
    machine.is_oom_score_final = is_final
    assert (KILLED_FIRST in broken_promises(machine)) is not is_final


def test_the_score_is_final_with_the_right_to_lower_it(tmp_path: Path) -> None:
    found = {line.split()[0]: line.split()[-1] for line in Path("/proc/self/status").read_text().splitlines()}
    has_right = bool(int(found["CapEff:"], 16) & 1 << 24)  # CAP_SYS_RESOURCE
    assert Machine(Options(root=tmp_path), Layout(tmp_path)).is_oom_score_final is has_right


@pytest.mark.parametrize(
    ("is_root", "has_filter", "has_sandbox", "is_broken"),
    [
        (False, False, False, True),
        (False, True, False, False),
        (True, False, False, False),
        (False, False, True, False),
    ],
)
def test_an_ordinary_users_keys_are_reached_where_nothing_is_in_between(
    tmp_path: Path, *, is_root: bool, has_filter: bool, has_sandbox: bool, is_broken: bool
) -> None:
    machine = Machine(Options(root=tmp_path), Layout(tmp_path))
    machine.is_root, machine.seccomp = is_root, b"filter" if has_filter else None
    machine.bwrap = "/usr/bin/bwrap" if has_sandbox else None
    assert (NO_KEY in broken_promises(machine)) is is_broken


def test_containers_have_no_size_for_homes() -> None:
    said = ["Workspaces are containers.", "The disk space of a home is not limited."]
    broken = [promise.text for promise, why in judged(InstanceBackend.DOCKER, said) if why is not None]
    assert broken == ["no more disk than a size of its own"]
