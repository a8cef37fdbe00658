"""Who fails is run once more, alone: who passes then is flaky, which is counted. Not in `make test`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.again import MOST_FLAKY, judge

ROOT = Path(__file__).parents[2]
# Each run leaves a mark; in the second, and in it alone, the unlucky ones pass.
TESTS = """
import os, pathlib, pytest
MARK = pathlib.Path(__file__).with_name("again")
is_again = MARK.exists()

def test_good(): pass

@pytest.mark.parametrize("n", range({unlucky}))
def test_unlucky(n): assert is_again

@pytest.mark.parametrize("n", range({wrong}))
def test_wrong(n): assert False

@pytest.mark.skipif(is_again, reason="it is gone")
def test_gone(): assert {gone} == 0

def test_last(): MARK.touch()
"""


def run(folder: Path, unlucky: int = 0, wrong: int = 0, gone: int = 0) -> tuple[int, str]:
    (folder / "test_some.py").write_text(TESTS.format(unlucky=unlucky, wrong=wrong, gone=gone))
    (folder / "pytest.ini").write_text("[pytest]\n")
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CODEHUB_REQUIRE"))}
    command = [sys.executable, "-m", "tests.lab.again", "-n", "0"]
    done = subprocess.run(
        command, cwd=folder, env={**given, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.exhaustive
def test_all_pass_and_nothing_is_run_again(tmp_path: Path) -> None:
    code, said = run(tmp_path)
    assert code == 0, said
    assert "once more" not in said


@pytest.mark.exhaustive
def test_who_passes_alone_is_named(tmp_path: Path) -> None:
    code, said = run(tmp_path, unlucky=1)
    assert code == 0, said
    assert "0 failed, 1 flaky" in said
    assert "flaky   " in said
    assert "test_unlucky[0]" in said


def test_who_fails_again_has_failed(tmp_path: Path) -> None:
    code, said = run(tmp_path, unlucky=1, wrong=1)
    assert code == 1
    assert "1 failed, 1 flaky" in said


@pytest.mark.exhaustive
def test_who_is_skipped_the_second_time_has_not_passed(tmp_path: Path) -> None:
    code, said = run(tmp_path, gone=1)
    assert code == 1
    assert "1 failed, 0 flaky" in said


@pytest.mark.parametrize("flaky", [MOST_FLAKY, MOST_FLAKY + 1])
def test_more_than_three_flaky_fail_the_run(flaky: int) -> None:
    names = [f"test_{n}" for n in range(flaky)]
    assert judge(names, dict.fromkeys(names, "passed")).code == (flaky > MOST_FLAKY)


def test_an_ordinary_run_gives_no_second_chance(tmp_path: Path) -> None:
    """Whatever the stand-in for pytest says, it is asked once, and without what is exhaustive."""
    said = tmp_path / "said"
    for name, text in (("python", "exit 0"), ("pytest", f'echo "$*" >>{said}; exit 1')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    make = ["make", "--silent", "-o", "setup", "-o", "dashboard", "test", f"BIN={tmp_path}"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    (once,) = said.read_text().splitlines()
    assert "-m not exhaustive" in once
