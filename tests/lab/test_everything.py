"""`make test-all` takes every step, whatever came of those before, stops the engine that it started, and tells all."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.lab import everything
from tests.lab.everything import Step


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for docker.sh, which says what it was asked for."""
    script = tmp_path / "docker.sh"
    script.write_text(f"#!/bin/sh\necho $@ >>{tmp_path}/asked\n[ $1 != env ]\n")
    script.chmod(0o755)
    monkeypatch.setattr(everything, "DOCKER", str(script))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return tmp_path


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (3, 1)])
def test_each_step_is_taken_and_told(
    engine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, ends: int
) -> None:
    def steps(_: Sequence[str]) -> Iterator[Step]:
        yield Step("engine", ["sh", "-c", f"echo 123 >${everything.STARTED}"])
        yield Step("first", [sys.executable, "-c", f"raise SystemExit({code})"])
        yield Step("second", ["touch", str(engine / "second")])

    monkeypatch.setattr(everything, "steps", steps)
    assert everything.main([]) == ends
    said = capsys.readouterr().out
    assert f"first                 {'FAILED (3)' if code else 'passed'} in" in said
    assert "second                passed in" in said
    assert (engine / "second").exists()
    assert (engine / "asked").read_text() == "stop 123\n"


def test_an_engine_that_it_did_not_start_stays(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where there was none when it began: somebody else has started it meanwhile."""
    monkeypatch.setattr(everything, "steps", lambda _: iter([Step("nothing", ["true"])]))
    assert everything.main([]) == 0
    assert not (engine / "asked").exists() or "stop" not in (engine / "asked").read_text()


def test_what_only_root_can_is_left_out_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert everything.run(Step("x", ["false"], as_root=True)) == "left out: only root can"


def test_every_target_is_a_step() -> None:
    steps = {step.name: step for step in everything.steps(["-n", "4"])}
    names = list(steps)
    assert {"tests", "make docker-lab", "make test-compose", "make test-k8s", "make test-simulation"} <= set(names)
    assert "INTERRUPT=10" in steps["… INTERRUPT=10"].command
    assert names.index("a bare machine") < names.index("tests"), "some of them start on one"
    assert ("make test-bare" in names) == (everything.ROOT / "tests/bare").exists()
